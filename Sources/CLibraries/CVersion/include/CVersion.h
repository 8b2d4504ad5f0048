#ifndef CVERSION_H
#define CVERSION_H

/* The commit from which etc/release or etc/package built the program; "unknown" in other builds. */
const char *cversion_commit(void);

#endif
