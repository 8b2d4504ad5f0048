#include "CVersion.h"

/* The function has a file of its own, so that a new commit compiles only this file again. */
const char *cversion_commit(void) { return SIPPUSHD_COMMIT; }
