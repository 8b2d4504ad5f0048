/* This header must be the first: libevent defines _GNU_SOURCE, which would give C structures another layout than they
   have in Swift's Glibc module. */
#include <features.h>
#include <event2/event.h>
#include <linux/sockios.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

/* The kernel's structure mmsghdr, and functions that glibc declares only with _GNU_SOURCE. */
struct batch_message {
    struct msghdr header;
    unsigned int length;
};
int batch_receive(int fd, struct batch_message *messages, unsigned int count, int flags, void *timeout)
    __asm__("recvmmsg");
int batch_send(int fd, struct batch_message *messages, unsigned int count, int flags) __asm__("sendmmsg");
int stream_accept(int fd, struct sockaddr *address, socklen_t *length, int flags) __asm__("accept4");
int thread_set_name(pthread_t thread, const char *name) __asm__("pthread_setname_np");

/* Sets the length of the calling thread's time slices by sched_setattr(2), which glibc does not wrap. The thread keeps
   its nice value. The structure is the kernel's (linux/sched/types.h). */
static inline long thread_set_turn(uint64_t nanoseconds) {
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t niceness;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    } attributes = { sizeof attributes, 0, 0, getpriority(PRIO_PROCESS, 0), 0, nanoseconds, 0, 0 };
    return syscall(SYS_sched_setattr, 0, &attributes, 0);
}

/* The number of processors that the calling thread may use. glibc's macros for processor sets need _GNU_SOURCE. */
static inline int thread_processor_count(void) {
    unsigned long processors[128] = { 0 };
    int count = 0;
    if (syscall(SYS_sched_getaffinity, 0, sizeof processors, processors) < 0) return 1;
    for (int index = 0; index < 128; index++) count += __builtin_popcountl(processors[index]);
    return count;
}

/* These functions call prctl, because Swift cannot call variadic functions. */
static inline int process_set_dumpable(int is_dumpable) { return prctl(PR_SET_DUMPABLE, is_dumpable, 0, 0, 0); }
static inline int process_is_dumpable(void) { return prctl(PR_GET_DUMPABLE, 0, 0, 0, 0); }

/* Asks the kernel whether another user may use a file, also by access control lists. During the call, the calling
   thread has that user's identity for file access. The system call is used, because glibc's setgroups would change all
   threads. Returns 0, an error number, or -1 if this process may not take the identity. */
static inline int access_as(
    uint32_t user, uint32_t group, const uint32_t *groups, size_t count, const char *path, int mode)
{
    uint32_t old_groups[256];
    long old_count = syscall(SYS_getgroups, 256, old_groups);
    if (old_count < 0 || syscall(SYS_setgroups, count, groups) != 0) return -1;
    int old_group = setfsgid(group), old_user = setfsuid(user), result = -1;
    if ((uint32_t)setfsuid(-1) == user && (uint32_t)setfsgid(-1) == group)
        result = syscall(SYS_faccessat2, AT_FDCWD, path, mode, AT_EACCESS) == 0 ? 0 : errno;
    setfsuid(old_user);
    setfsgid(old_group);
    syscall(SYS_setgroups, old_count, old_groups);
    return result;
}
static inline int access_as_self(const char *path, int mode) {
    return syscall(SYS_faccessat2, AT_FDCWD, path, mode, AT_EACCESS) == 0 ? 0 : errno;
}

static inline long access_list_of(const char *path, void *list, size_t length) {
    return getxattr(path, "system.posix_acl_access", list, length);
}

/* Opens a file without a name, which no other process can open, and which is removed when its descriptor is closed. The
   octal constant is O_TMPFILE, which glibc declares only with _GNU_SOURCE. */
static inline int open_unnamed(const char *folder) { return open(folder, 020000000 | O_DIRECTORY | O_WRONLY | O_CLOEXEC, 0600); }

/* Sends one datagram to a Unix-domain socket, with a descriptor unless `descriptor` is negative. Swift cannot call the
   macros for control messages. A name that begins with "@" is in the abstract namespace. */
static inline long notify_manager(
    int fd, const unsigned char *name, size_t name_length, const unsigned char *bytes, size_t length, int passed)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct iovec vector = {.iov_base = (void *)bytes, .iov_len = length};
    struct msghdr message = {.msg_name = &address, .msg_iov = &vector, .msg_iovlen = 1};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    if (name_length == 0 || name_length >= sizeof address.sun_path) return -1;
    memcpy(address.sun_path, name, name_length);
    if (address.sun_path[0] == '@') address.sun_path[0] = 0;
    message.msg_namelen = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + name_length);
    if (passed >= 0) {
        memset(&control, 0, sizeof control);
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = SCM_RIGHTS;
        control.head.cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(&control.head), &passed, sizeof(int));
        message.msg_control = &control;
        message.msg_controllen = sizeof control;
    }
    return sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* How many nanoseconds the last read datagram had waited, by the wall clock; negative if unknown. */
static inline long long socket_last_wait(int fd) {
    struct timespec then, now;
    if (ioctl(fd, SIOCGSTAMPNS, &then) != 0 || clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
    return (now.tv_sec - then.tv_sec) * 1000000000LL + (now.tv_nsec - then.tv_nsec);
}
