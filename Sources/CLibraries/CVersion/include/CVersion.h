#ifndef CVERSION_H
#define CVERSION_H

/* The commit that the program was built from, as etc/release and etc/package say it; "unknown" in other builds. */
const char *cversion_commit(void);

#endif
