import CEvent
import Crypto
import Glibc

/// Reads and writes the data of a connection with TLS. The ``TLSStream`` is the sole owner of one libevent bufferevent,
/// which owns the descriptor and a reference to the TLS session.
///
/// The bufferevent refers to the connection only weakly, through a box (see ``LoopEvent``).
@safe
final class TLSStream {
    private let loop: EventLoop
    private let raw: OpaquePointer
    private let box: Unmanaged<Box>
    private let session: TLSSession

    private final class Box {
        weak var connection: StreamConnection?
        let session: TLSSession

        init(_ connection: StreamConnection, _ session: TLSSession) {
            self.connection = connection
            self.session = session
        }
    }

    /// Takes ownership of the descriptor of a connected socket. A TLS client begins its handshake now; a TLS server has
    /// already finished its handshake.
    init(
        _ connected: consuming Descriptor, of connection: StreamConnection, session: TLSSession, turn: LoopTurn
    ) throws(SystemError) {
        loop = connection.loop
        loop.checkThread()
        self.session = session
        let state = session.isServer ? BUFFEREVENT_SSL_OPEN : BUFFEREVENT_SSL_CONNECTING
        guard
            let raw = unsafe bufferevent_openssl_socket_new(
                loop.base, connected.number, OpaquePointer(session.retainedHandle()), state,
                Int32(BEV_OPT_CLOSE_ON_FREE.rawValue))
        else { throw SystemError(call: "bufferevent_new", code: ENOMEM) }
        _ = connected.release()
        unsafe self.raw = raw
        let box = unsafe Unmanaged.passRetained(Box(connection, session))
        unsafe self.box = box
        unsafe bufferevent_setcb(raw, Self.readCallback, Self.writeCallback, Self.eventCallback, box.toOpaque())
        unsafe bufferevent_disable(raw, Int16(EV_READ))
        unsafe bufferevent_priority_set(raw, turn.rawValue)
        // A peer may close TCP without close_notify.
        unsafe bufferevent_openssl_set_allow_dirty_shutdown(raw, 1)
    }

    deinit {
        let remains = unsafe Remains(raw: raw, box: box, session: session)
        loop.dispose { remains.free() }
    }

    /// The C objects of a stream, freed on the loop's thread.
    ///
    /// - The type is `@unchecked Sendable`, because it moves to the loop and is used once.
    @safe
    private struct Remains: @unchecked Sendable {
        let raw: OpaquePointer
        let box: Unmanaged<Box>
        let session: TLSSession

        func free() {
            session.shutDown()
            unsafe bufferevent_free(raw)
            unsafe box.release()
        }
    }

    // MARK: Input

    func setReading(_ isOn: Bool) {
        loop.checkThread()
        _ = unsafe isOn ? bufferevent_enable(raw, Int16(EV_READ)) : bufferevent_disable(raw, Int16(EV_READ))
    }

    /// Sets how many bytes of input may wait before the stream stops reading.
    func limitInput(to bytes: Int) { unsafe bufferevent_setwatermark(raw, Int16(EV_READ), 0, bytes) }

    /// Passes all waiting input to `body` in one piece, and drops the input.
    func lendInput(_ body: (Span<UInt8>) -> Void) {
        loop.checkThread()
        let input = unsafe bufferevent_get_input(raw)
        let count = unsafe evbuffer_get_length(input)
        // libevent returns no pointer only if memory is lacking.
        guard count > 0, let start = unsafe evbuffer_pullup(input, -1) else { return }
        body(unsafe Span(_unsafeStart: start, count: count))
        unsafe evbuffer_drain(input, count)
    }

    // MARK: Output

    /// Sends close_notify to the peer, and returns a second descriptor of the socket.
    func duplicateSocket() -> Descriptor? {
        session.shutDown()
        return try? System.duplicate(unsafe bufferevent_getfd(raw))
    }

    var outputCount: Int { unsafe evbuffer_get_length(bufferevent_get_output(raw)) }

    func tellOutput(below bytes: Int) { unsafe bufferevent_setwatermark(raw, Int16(EV_WRITE), bytes, 0) }

    func write(_ bytes: Span<UInt8>) -> Int {
        loop.checkThread()
        unsafe bytes.withUnsafeBytes { _ = unsafe bufferevent_write(raw, $0.baseAddress, $0.count) }
        return outputCount
    }

    // MARK: Time-outs

    func setTimeouts(input: Duration?, output: Duration) {
        loop.checkThread()
        var read = timeval(input ?? .zero)
        var write = timeval(output)
        unsafe withUnsafePointer(to: &read) { read in
            unsafe withUnsafePointer(to: &write) { write in
                _ = unsafe bufferevent_set_timeouts(raw, input == nil ? nil : read, write)
            }
        }
    }

    // MARK: Callbacks

    private static let readCallback: bufferevent_data_cb = { _, context in
        guard let context = unsafe context,
            let connection = unsafe Unmanaged<Box>.fromOpaque(context).takeUnretainedValue().connection
        else { return }
        connection.inputArrived()
        connection.noteTurn()
    }

    private static let writeCallback: bufferevent_data_cb = { _, context in
        guard let context = unsafe context else { return }
        unsafe Unmanaged<Box>.fromOpaque(context).takeUnretainedValue().connection?.outputDrained()
    }

    private static let eventCallback: bufferevent_event_cb = { raw, what, context in
        let code = errno
        guard let raw = unsafe raw, let context = unsafe context else { return }
        let box = unsafe Unmanaged<Box>.fromOpaque(context).takeUnretainedValue()
        guard let connection = box.connection else { return }
        let what = Int32(what)
        if what & BEV_EVENT_CONNECTED != 0 {
            connection.handshakeFinished()
        } else if what & BEV_EVENT_TIMEOUT != 0 {
            connection.failed(what & BEV_EVENT_WRITING != 0 ? .outputStalled : .idle)
        } else if what & BEV_EVENT_EOF != 0 {
            connection.failed(.peerClosed)
        } else {
            let tlsCode = unsafe bufferevent_get_openssl_error(raw)
            let reason = box.session.reason(for: tlsCode)
            connection.failed(reason.map { .tls($0) } ?? .system(SystemError(call: "read", code: code)))
        }
    }
}
