/* First, so that no header's feature macros give C structures another shape than they have in Glibc. */
#include <features.h>
#include <libpq-fe.h>
#include <sys/ioctl.h>

/* How many bytes wait to be read from a socket. Swift cannot call ioctl, which is variadic. */
static inline int pq_bytes_waiting(int socket) {
    int count = 0;
    return ioctl(socket, FIONREAD, &count) == 0 ? count : 0;
}
