/* This header must be the first: a feature macro of a later header could give C structures another layout than they
   have in Swift's Glibc module. */
#include <features.h>
#include <mysql.h>
