/* First, because libevent defines _GNU_SOURCE, which would give C structures another shape than they have in Glibc. */
#include <features.h>
#include <event2/event.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <event2/listener.h>
#include <event2/thread.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>

/* glibc shows these only to _GNU_SOURCE, which Swift's importer does not define; the layout is the kernel's. */
struct batch_message {
    struct msghdr header;
    unsigned int length;
};
int batch_receive(int fd, struct batch_message *messages, unsigned int count, int flags, void *timeout)
    __asm__("recvmmsg");
int batch_send(int fd, struct batch_message *messages, unsigned int count, int flags) __asm__("sendmmsg");
int stream_accept(int fd, struct sockaddr *address, socklen_t *length, int flags) __asm__("accept4");
int thread_set_name(pthread_t thread, const char *name) __asm__("pthread_setname_np");

/* prctl takes a variable number of arguments, which Swift cannot pass. */
static inline int process_set_dumpable(int is_dumpable) { return prctl(PR_SET_DUMPABLE, is_dumpable, 0, 0, 0); }
static inline int process_is_dumpable(void) { return prctl(PR_GET_DUMPABLE, 0, 0, 0, 0); }
