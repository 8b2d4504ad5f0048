#include "CVersion.h"

/* A file of its own: another commit compiles nothing else anew. */
const char *cversion_commit(void) { return SIPPUSHD_COMMIT; }
