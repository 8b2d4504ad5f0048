/* First, so that no header's feature macros give C structures another shape than they have in Glibc. */
#include <features.h>
#include <mysql.h>
