import Crypto

/// One of the threads of a ``HandshakePool``.
///
/// A handshake never blocks its thread: while the client of a handshake is silent, the thread continues other
/// handshakes.
///
/// - The type is `@unchecked Sendable`, because only its thread uses handshakes, and all other properties are behind a
///   lock.
final class HandshakeThread: @unchecked Sendable {
    /// How a TLS handshake ended.
    enum End: Sendable {
        /// The handshake succeeded; the receiver owns the socket.
        case done(socket: Int32)
        case failed(StreamCloseReason)
    }

    private let loop: EventLoop
    private var underWay: [UInt64: Handshake] = [:]

    init() throws(SystemError) {
        loop = try EventLoop()
        // If a thread with the nice value 10 and a thread with the nice value 0 share a processor, the thread with 10
        // gets a tenth of the time.
        try loop.start(name: "handshakes", niceness: 10)
    }

    deinit { loop.leave() }

    /// Begins the TLS handshake of an accepted connection.
    ///
    /// - Parameters:
    ///   - number: the unique number of the connection.
    ///   - descriptor: the file descriptor of the connected socket.
    ///   - session: the TLS session of the server's side, which no other code may use until `ended` is called.
    ///   - started: called once, on the handshake thread, before the handshake's first step.
    ///   - ended: called once, on the handshake thread, unless the returned object was released earlier.
    /// - Returns: the handshake's owner; its release breaks the handshake off and closes the socket.
    func begin(
        _ number: UInt64, _ descriptor: consuming Descriptor, _ session: TLSSession,
        started: @escaping @Sendable () -> Void, ended: @escaping @Sendable (End) -> Void
    ) -> PendingHandshake {
        let socket = descriptor.release()
        loop.post { [self] in
            started()
            do throws(SystemError) {
                let handshake = try Handshake(Descriptor(socket), session, on: loop) { [unowned self] in
                    goOn(number)
                }
                handshake.ended = ended
                underWay[number] = handshake
                goOn(number)
            } catch {
                ended(.failed(.system(error)))
            }
        }
        return PendingHandshake(number, on: self)
    }

    fileprivate func cancel(_ number: UInt64) {
        loop.post { [self] in underWay[number] = nil }
    }

    private func goOn(_ number: UInt64) {
        guard let handshake = underWay[number], let end = handshake.goOn() else { return }
        underWay[number] = nil
        handshake.ended(end)
    }
}

/// A running handshake, which is broken off when the ``PendingHandshake`` is released.
final class PendingHandshake: Sendable {
    private let number: UInt64
    private let thread: HandshakeThread

    fileprivate init(_ number: UInt64, on thread: HandshakeThread) {
        self.number = number
        self.thread = thread
    }

    deinit { thread.cancel(number) }
}

/// One TLS handshake, used only on the handshake thread.
private final class Handshake {
    private var descriptor: Descriptor?
    private let session: TLSSession
    private var watch: FileWatch?
    var ended: @Sendable (HandshakeThread.End) -> Void = { _ in }

    /// Prepares a handshake.
    ///
    /// - Parameters:
    ///   - descriptor: the file descriptor of the connected socket.
    ///   - session: the server's TLS session.
    ///   - loop: the event loop of the handshake thread.
    ///   - ready: called when the socket can be read or written.
    /// - Throws: an error if memory is lacking.
    init(
        _ descriptor: consuming Descriptor, _ session: TLSSession, on loop: EventLoop, ready: @escaping () -> Void
    ) throws(SystemError) {
        let number = descriptor.number
        self.descriptor = consume descriptor
        self.session = session
        // The watch on the handshake's socket has no deadline, because the connection's loop limits the time.
        watch = try FileWatch(descriptor: number, on: loop, until: nil) { _ in ready() }
        guard session.accept(on: number) else { throw SystemError(call: "BIO_new", code: SystemError.outOfMemory) }
    }

    deinit {
        // Events are removed before the descriptor is closed, because a new file can get the same descriptor number.
        watch = nil
    }

    /// Continues the handshake until it ends or must wait for the socket.
    ///
    /// - Returns: the result; `nil` while the handshake waits for the client.
    func goOn() -> HandshakeThread.End? {
        switch session.shakeHands() {
        case .done:
            watch = nil
            guard session.continueInMemory() else {
                return .failed(.system(SystemError(call: "BIO_new", code: SystemError.outOfMemory)))
            }
            guard let descriptor = descriptor.take() else { return nil }
            return .done(socket: descriptor.release())
        case .wantsInput: return wait(for: .read)
        case .wantsOutput: return wait(for: .write)
        case .ended: return .failed(.peerClosed)
        case .broken(let code): return .failed(.system(SystemError(call: "read", code: code)))
        case .failed(let reason): return .failed(.tls(reason))
        }
    }

    private func wait(for interest: FileWatch.Interest) -> HandshakeThread.End? {
        do throws(SystemError) {
            try watch?.watch(for: interest)
            return nil
        } catch {
            return .failed(.system(error))
        }
    }
}
