import Addressing
import CEvent
import Glibc

/// All system calls of the module Reactor. Each function retries after `EINTR`, returns `nil` or a case for "would
/// block", and throws other errors.
enum System {
    private static let closeOnExec = Int32(SOCK_CLOEXEC.rawValue)
    private static let nonBlocking = Int32(SOCK_NONBLOCK.rawValue)
    static let stream = Int32(SOCK_STREAM.rawValue)
    static let datagram = Int32(SOCK_DGRAM.rawValue)

    private static func check(_ call: String, _ body: () -> Int32) throws(SystemError) -> Int32 {
        while true {
            let result = body()
            if result >= 0 { return result }
            guard errno == EINTR else { throw SystemError(call: call, code: errno) }
        }
    }

    /// Makes a system call, and returns its result; `nil` if the call would block.
    private static func attempt(_ call: String, _ body: () -> Int) throws(SystemError) -> Int? {
        while true {
            let result = body()
            if result >= 0 { return result }
            switch errno {
            case EINTR: continue
            case EAGAIN: return nil
            default: throw SystemError(call: call, code: errno)
            }
        }
    }
}

// MARK: Sockets

extension System {
    /// Creates a non-blocking socket that is bound to the endpoint. An IPv6 socket accepts only IPv6, so that an IPv4
    /// socket can use the same port.
    static func boundSocket(_ kind: Int32, to endpoint: Endpoint) throws(SystemError) -> Descriptor {
        let family = endpoint.address.isV4 ? AF_INET : AF_INET6
        let number = try check("socket") { socket(family, kind | closeOnExec | nonBlocking, 0) }
        let descriptor = Descriptor(number)
        if family == AF_INET6 { try setOption(number, Int32(IPPROTO_IPV6), IPV6_V6ONLY, 1) }
        // With SO_REUSEADDR, a restarted daemon can bind its port while old connections are in TIME_WAIT. A UDP socket
        // must not have SO_REUSEADDR, because two processes could then share a port unnoticed.
        if kind == stream { try setOption(number, SOL_SOCKET, SO_REUSEADDR, 1) }
        _ = try unsafe SocketAddress.with(endpoint) { address, length throws(SystemError) in
            try check("bind") { unsafe bind(number, address, length) }
        }
        return descriptor
    }

    static func listen(_ descriptor: Int32, backlog: Int32) throws(SystemError) {
        _ = try check("listen") { Glibc.listen(descriptor, backlog) }
    }

    /// Accepts the next waiting connection; `nil` if no connection waits.
    static func accept(_ listener: Int32) throws(SystemError) -> Descriptor? {
        while true {
            let number = stream_accept(listener, nil, nil, closeOnExec | nonBlocking)
            if number >= 0 { return Descriptor(number) }
            switch errno {
            // The following errors concern only the new connection: its peer closed it, or the network reported a
            // problem (accept(2)).
            case EINTR, ECONNABORTED, EPROTO, ENETDOWN, ENOPROTOOPT, EHOSTDOWN, ENONET, EHOSTUNREACH, EOPNOTSUPP,
                ENETUNREACH:
                continue
            case EAGAIN: return nil
            default: throw SystemError(call: "accept4", code: errno)
            }
        }
    }

    /// Creates a stream socket for ``connect(_:to:)``, bound to `source` if given.
    static func connectingSocket(to endpoint: Endpoint, from source: IPAddress?) throws(SystemError) -> Descriptor {
        let family = endpoint.address.isV4 ? AF_INET : AF_INET6
        let number = try check("socket") { socket(family, stream | closeOnExec | nonBlocking, 0) }
        let descriptor = Descriptor(number)
        guard let source, !source.isUnspecified else { return descriptor }
        // With IP_BIND_ADDRESS_NO_PORT, the kernel chooses the port only when it knows the peer. Connections to
        // different peers can then share a port.
        try? setOption(number, Int32(IPPROTO_IP), IP_BIND_ADDRESS_NO_PORT, 1)
        _ = try unsafe SocketAddress.with(Endpoint(source, 0)) { address, length throws(SystemError) in
            try check("bind") { unsafe bind(number, address, length) }
        }
        return descriptor
    }

    /// Begins to connect; returns an error only if connecting fails immediately.
    static func connect(_ descriptor: Int32, to endpoint: Endpoint) -> SystemError? {
        do {
            _ = try unsafe SocketAddress.with(endpoint) { address, length throws(SystemError) in
                try check("connect") { unsafe Glibc.connect(descriptor, address, length) }
            }
        } catch {
            return error.code == EINPROGRESS ? nil : error
        }
        return nil
    }

    /// The error of a finished connection attempt; `nil` after success.
    static func pendingError(_ descriptor: Int32) -> SystemError? {
        do {
            let code = try option(descriptor, SOL_SOCKET, SO_ERROR)
            return code == 0 ? nil : SystemError(call: "connect", code: code)
        } catch {
            return error
        }
    }

    /// Reads bytes into `room`, and returns their number. The result is 0 if the peer has ended its side, and `nil` if
    /// no input waits.
    static func receive(_ descriptor: Int32, into room: UnsafeMutableBufferPointer<UInt8>) throws(SystemError) -> Int? {
        try attempt("recv") { unsafe recv(descriptor, room.baseAddress, room.count, Int32(MSG_DONTWAIT)) }
    }

    /// Copies waiting bytes into `room`, and leaves them in the socket.
    static func peek(_ descriptor: Int32, into room: UnsafeMutableBufferPointer<UInt8>) throws(SystemError) -> Int? {
        try attempt("recv") {
            unsafe recv(descriptor, room.baseAddress, room.count, Int32(MSG_DONTWAIT) | Int32(MSG_PEEK))
        }
    }

    /// Sends bytes, and returns how many were sent; `nil` if the socket's buffer is full.
    static func send(_ descriptor: Int32, _ bytes: Span<UInt8>) throws(SystemError) -> Int? {
        unsafe try bytes.withUnsafeBufferPointer { bytes throws(SystemError) in
            try attempt("send") {
                unsafe Glibc.send(descriptor, bytes.baseAddress, bytes.count, Int32(MSG_DONTWAIT) | Int32(MSG_NOSIGNAL))
            }
        }
    }

    static func duplicate(_ descriptor: Int32) throws(SystemError) -> Descriptor {
        Descriptor(try check("fcntl") { fcntl(descriptor, F_DUPFD_CLOEXEC, 0) })
    }

    /// Closes the socket for writing, so that the peer notices the end of the output. `shutdown` fails only if the
    /// connection is already closed.
    static func endOutput(_ descriptor: Int32) { _ = shutdown(descriptor, Int32(SHUT_WR)) }

    static func localEndpoint(_ descriptor: Int32) -> Endpoint? {
        unsafe SocketAddress.read({ unsafe getsockname($0, $1, $2) }, of: descriptor)
    }

    static func remoteEndpoint(_ descriptor: Int32) -> Endpoint? {
        unsafe SocketAddress.read({ unsafe getpeername($0, $1, $2) }, of: descriptor)
    }

    static func setOption(_ descriptor: Int32, _ level: Int32, _ name: Int32, _ value: Int32) throws(SystemError) {
        var value = value
        _ = try check("setsockopt") {
            unsafe setsockopt(descriptor, level, name, &value, socklen_t(MemoryLayout<Int32>.size))
        }
    }

    static func option(_ descriptor: Int32, _ level: Int32, _ name: Int32) throws(SystemError) -> Int32 {
        var value: Int32 = 0
        var length = socklen_t(MemoryLayout<Int32>.size)
        _ = try check("getsockopt") { unsafe getsockopt(descriptor, level, name, &value, &length) }
        return value
    }

    /// Enlarges the kernel's buffers of a socket, beyond the system's limit if the process runs as superuser.
    static func growBuffers(_ descriptor: Int32, to bytes: Int32) {
        for (forced, plain) in [(SO_RCVBUFFORCE, SO_RCVBUF), (SO_SNDBUFFORCE, SO_SNDBUF)] {
            do {
                try setOption(descriptor, SOL_SOCKET, forced, bytes)
            } catch {
                // Without root's rights, the kernel limits the buffer to net.core.rmem_max, which is also enough.
                try? setOption(descriptor, SOL_SOCKET, plain, bytes)
            }
        }
    }

    /// The number of datagrams that the kernel has dropped for the socket (`sk_drops`); 0 if the kernel does not report
    /// it.
    static func receiveDrops(_ descriptor: Int32) -> UInt32 {
        // `sk_drops` is the ninth number in the list of linux/sock_diag.h.
        var figures = [UInt32](repeating: 0, count: 16)
        var length = socklen_t(figures.count * MemoryLayout<UInt32>.size)
        let result = unsafe getsockopt(descriptor, SOL_SOCKET, SO_MEMINFO, &figures, &length)
        return result == 0 ? figures[8] : 0
    }

    /// The time that the last datagram waited in the kernel before it was read. The first call on a socket returns no
    /// time, but makes the kernel record the times.
    static func waitOfLastDatagram(_ descriptor: Int32) -> Duration? {
        let wait = socket_last_wait(descriptor)
        // The kernel computes the waiting time from the wall clock. A waiting time of more than a minute shows that the
        // wall clock was changed.
        return 0...60_000_000_000 ~= wait ? .nanoseconds(wait) : nil
    }

    static func setNoDelay(_ descriptor: Int32) {
        // TCP_NODELAY fails only for a Unix-domain socket, which sends immediately anyway.
        try? setOption(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, 1)
    }
}

// MARK: The process

extension System {
    /// Lowers the priority of the calling thread below other threads of the process.
    static func lowerThreadPriority(to niceness: Int32) {
        // On Linux, each thread has its own nice value. `setpriority` cannot fail, because every thread may raise its
        // own nice value.
        _ = setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, niceness)
        // The default length of time slices is set, because a thread inherits the length from its creator.
        _ = thread_set_turn(0)
    }

    /// Asks the kernel for short time slices for the calling thread (Linux 6.12; no effect on older kernels). A thread
    /// with short slices interrupts threads with longer slices as soon as it has work.
    static func shortenThreadTurns() { _ = thread_set_turn(300_000) }

    static func forbidDumps() throws(SystemError) { _ = try check("prctl") { process_set_dumpable(0) } }

    /// Raises this process's limit of descriptors to the maximum, and returns the new limit.
    static func raiseDescriptorLimit() -> UInt64 {
        let kind = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        var limit = rlimit()
        guard unsafe getrlimit(kind, &limit) == 0 else { return 1024 }
        var raised = limit
        raised.rlim_cur = limit.rlim_max
        guard limit.rlim_cur < limit.rlim_max, unsafe setrlimit(kind, &raised) == 0 else {
            return UInt64(limit.rlim_cur)
        }
        return UInt64(raised.rlim_cur)
    }

    /// Enlarges the kernel's table of descriptors early. Enlarging the table later would delay SIP messages by a tenth
    /// of a second or more (`synchronize_rcu`).
    static func growDescriptorTable(to count: Int) {
        guard let last = Int32(exactly: count - 1), let any = try? wakeDescriptor() else { return }
        // A failure is ignored: the table may already be large enough, and otherwise grows when needed.
        _ = try? Descriptor(check("fcntl") { fcntl(any.number, F_DUPFD_CLOEXEC, last) })
    }

    static var process: Int32 { getpid() }

    static var allowsDumps: Bool { process_is_dumpable() != 0 }
}

// MARK: Unix-domain sockets

extension System {
    /// The user of the process that connected to a Unix-domain socket; `nil` for a TCP socket.
    static func peerUser(_ descriptor: Int32) -> UInt32? {
        // The three values of the C structure `ucred`: process, user and group.
        var credentials = [UInt32](repeating: 0, count: 3)
        var length = socklen_t(credentials.count * MemoryLayout<UInt32>.size)
        let result = unsafe getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &credentials, &length)
        // For a socket that is no Unix-domain socket, the kernel reports the highest number as the user.
        return result == 0 && credentials[1] != .max ? credentials[1] : nil
    }
}

extension System {
    /// Creates a bound socket at `path` that only this process's user and root can use. A stale socket file at `path`
    /// is replaced, but no other kind of file.
    static func boundUnixSocket(at path: String) throws(SystemError) -> Descriptor {
        let number = try check("socket") { socket(AF_UNIX, stream | closeOnExec | nonBlocking, 0) }
        let descriptor = Descriptor(number)
        try removeStaleSocket(at: path)
        // The mode is set before the socket's file is created, so that the file never has wider permissions.
        _ = try check("fchmod") { fchmod(number, 0o600) }
        try unsafe withUnixAddress(path) { address, length throws(SystemError) in
            _ = try check("bind") { unsafe bind(number, address, length) }
        }
        _ = try check("chmod") { unsafe chmod(path, 0o600) }
        return descriptor
    }

    /// Creates a socket that is connected to `path`. Connecting to a Unix-domain socket succeeds or fails immediately.
    static func connectedUnixSocket(to path: String) throws(SystemError) -> Descriptor {
        let number = try check("socket") { socket(AF_UNIX, stream | closeOnExec | nonBlocking, 0) }
        let descriptor = Descriptor(number)
        try unsafe withUnixAddress(path) { address, length throws(SystemError) in
            _ = try check("connect") { unsafe Glibc.connect(number, address, length) }
        }
        return descriptor
    }

    static func removeFile(_ path: String) { unsafe unlink(path) }

    private static func removeStaleSocket(at path: String) throws(SystemError) {
        var status = stat()
        guard unsafe lstat(path, &status) == 0 else { return }
        guard status.st_mode & S_IFMT == S_IFSOCK else { throw SystemError(call: "bind", code: EADDRINUSE) }
        // If connecting succeeds, another process listens on the socket file; otherwise the file is stale.
        do {
            _ = try connectedUnixSocket(to: path)
        } catch {
            guard error.code == ECONNREFUSED else { throw error }
            unsafe unlink(path)
            return
        }
        throw SystemError(call: "bind", code: EADDRINUSE)
    }

    private static func withUnixAddress(
        _ path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) throws(SystemError) -> Void
    ) throws(SystemError) {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let bytes = Array(path.utf8)
        let room = MemoryLayout.size(ofValue: address.sun_path)
        guard !bytes.isEmpty, bytes.count < room, !bytes.contains(0) else {
            throw SystemError(call: "bind", code: ENAMETOOLONG)
        }
        unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: bytes) }
        try unsafe withUnsafePointer(to: &address) { pointer throws(SystemError) in
            try unsafe body(
                UnsafeRawPointer(pointer).assumingMemoryBound(to: sockaddr.self),
                socklen_t(MemoryLayout<sockaddr_un>.size))
        }
    }
}

// MARK: Batches and wake-ups

extension System {
    /// Receives up to `count` datagrams, and returns their number; `nil` if no datagram waits.
    static func receive(
        _ descriptor: Int32, _ messages: UnsafeMutablePointer<batch_message>, count: Int
    ) throws(SystemError) -> Int? {
        try attempt("recvmmsg") {
            unsafe Int(batch_receive(descriptor, messages, UInt32(count), Int32(MSG_DONTWAIT), nil))
        }
    }

    /// Sends datagrams, and returns how many were sent; `nil` if the socket's buffer is full.
    static func send(
        _ descriptor: Int32, _ messages: UnsafeMutablePointer<batch_message>, count: Int
    ) throws(SystemError) -> Int? {
        try attempt("sendmmsg") {
            unsafe Int(batch_send(descriptor, messages, UInt32(count), Int32(MSG_DONTWAIT)))
        }
    }

    static func wakeDescriptor() throws(SystemError) -> Descriptor {
        Descriptor(try check("eventfd") { eventfd(0, Int32(EFD_CLOEXEC) | Int32(EFD_NONBLOCK)) })
    }

    static func wake(_ descriptor: Int32) {
        var one: UInt64 = 1
        // The write fails only if the counter is full, and then the loop wakes up anyway.
        _ = try? attempt("write") { unsafe write(descriptor, &one, 8) }
    }

    static func clearWake(_ descriptor: Int32) {
        var count: UInt64 = 0
        _ = try? attempt("read") { unsafe read(descriptor, &count, 8) }
    }

    static func close(_ descriptor: Int32) { _ = Glibc.close(descriptor) }

    /// Ignores SIGPIPE and SIGXFSZ, so that a failed write returns an error instead of ending the process.
    static func ignoreWriteSignals() { for number in [SIGPIPE, SIGXFSZ] { signal(number, SIG_IGN) } }

    /// Allows the calling thread to receive the signal.
    static func unblock(_ signal: Int32) throws(SystemError) {
        var signals = sigset_t()
        unsafe sigemptyset(&signals)
        unsafe sigaddset(&signals, signal)
        let code = unsafe pthread_sigmask(SIG_UNBLOCK, &signals, nil)
        guard code == 0 else { throw SystemError(call: "pthread_sigmask", code: code) }
    }

    /// The number of processors that the calling thread may use.
    static var processorCount: Int { Int(thread_processor_count()) }

    static var currentThread: UInt { UInt(pthread_self()) }
}

/// The sole owner of a file descriptor, which is closed at the end of the owner.
struct Descriptor: ~Copyable {
    let number: Int32

    init(_ number: Int32) { self.number = number }

    deinit { System.close(number) }

    /// Returns the descriptor without closing it; the caller must close it.
    consuming func release() -> Int32 {
        let number = number
        discard self
        return number
    }
}
