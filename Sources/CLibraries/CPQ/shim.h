/* This header must be the first: a feature macro of a later header could give C structures another layout than they
   have in Swift's Glibc module. */
#include <features.h>
#include <libpq-fe.h>
#include <sys/ioctl.h>

/* How many bytes wait to be read from a socket. Swift cannot call the variadic ioctl. */
static inline int pq_bytes_waiting(int socket) {
    int count = 0;
    return ioctl(socket, FIONREAD, &count) == 0 ? count : 0;
}
