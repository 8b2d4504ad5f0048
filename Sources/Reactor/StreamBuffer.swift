import CEvent
import Crypto
import Glibc

/// What a ``StreamBuffer`` tells its connection.
protocol StreamBufferTarget: AnyObject {
    func inputArrived()
    func outputDrained()
    func handshakeFinished()
    func failed(_ reason: StreamCloseReason)
}

/// Sole owner of one libevent bufferevent, which owns the descriptor and a reference to the TLS session.
///
/// The target is held weakly by a box, as in ``LoopEvent``; the bufferevent is freed on the loop.
@safe
final class StreamBuffer {
    private let loop: EventLoop
    private let raw: OpaquePointer
    private let box: Unmanaged<Box>
    private let tls: TLSSession?
    let descriptor: Int32

    private final class Box {
        weak var target: (any StreamBufferTarget)?
        let tls: TLSSession?

        init(tls: TLSSession?) { self.tls = tls }
    }

    /// Takes over a connected descriptor. Reading is off at first; with TLS, the handshake begins at once.
    init(_ connected: consuming Descriptor, on loop: EventLoop, tls: TLSSession?, turn: LoopTurn) throws(SystemError) {
        loop.checkThread()
        self.loop = loop
        self.tls = tls
        let options = Int32(BEV_OPT_CLOSE_ON_FREE.rawValue)
        let descriptor = connected.number
        let made: OpaquePointer?
        if let tls {
            let state = tls.isServer ? BUFFEREVENT_SSL_ACCEPTING : BUFFEREVENT_SSL_CONNECTING
            unsafe made = unsafe bufferevent_openssl_socket_new(
                loop.base, descriptor, OpaquePointer(tls.retainedHandle()), state, options)
        } else {
            unsafe made = unsafe bufferevent_socket_new(loop.base, descriptor, options)
        }
        guard let raw = unsafe made else { throw SystemError(call: "bufferevent_new", code: ENOMEM) }
        self.descriptor = connected.release()
        unsafe self.raw = raw
        let box = unsafe Unmanaged.passRetained(Box(tls: tls))
        unsafe self.box = box
        unsafe bufferevent_setcb(raw, Self.readCallback, Self.writeCallback, Self.eventCallback, box.toOpaque())
        unsafe bufferevent_disable(raw, Int16(EV_READ))
        unsafe bufferevent_priority_set(raw, turn.rawValue)
        // The peer that ends TCP without close_notify is no different from one that ends plain TCP.
        if tls != nil { unsafe bufferevent_openssl_set_allow_dirty_shutdown(raw, 1) }
    }

    deinit {
        let remains = unsafe Remains(raw: raw, box: box, tls: tls)
        loop.dispose { remains.free() }
    }

    /// - `@unchecked Sendable` because it moves to the loop and is used once.
    @safe
    private struct Remains: @unchecked Sendable {
        let raw: OpaquePointer
        let box: Unmanaged<Box>
        let tls: TLSSession?

        func free() {
            tls?.shutDown()
            unsafe bufferevent_free(raw)
            unsafe box.release()
        }
    }

    func setTarget(_ target: some StreamBufferTarget) { unsafe box.takeUnretainedValue().target = target }

    // MARK: Input

    func setReading(_ isOn: Bool) {
        loop.checkThread()
        _ = unsafe isOn ? bufferevent_enable(raw, Int16(EV_READ)) : bufferevent_disable(raw, Int16(EV_READ))
    }

    /// Reading pauses while that many bytes wait.
    func limitInput(to bytes: Int) { unsafe bufferevent_setwatermark(raw, Int16(EV_READ), 0, bytes) }

    var inputCount: Int { unsafe evbuffer_get_length(bufferevent_get_input(raw)) }

    /// Lends all bytes that wait, in one piece, and drops as many as `body` says it used.
    func consumeInput(_ body: (Span<UInt8>) -> Int) {
        loop.checkThread()
        let input = unsafe bufferevent_get_input(raw)
        let count = inputCount
        // nil only when memory for the one piece is lacking.
        guard count > 0, let start = unsafe evbuffer_pullup(input, -1) else { return }
        let used = body(unsafe Span(_unsafeStart: start, count: count))
        precondition(used >= 0 && used <= count, "used more bytes than there were")
        unsafe evbuffer_drain(input, used)
    }

    // MARK: Output

    var outputCount: Int { unsafe evbuffer_get_length(bufferevent_get_output(raw)) }

    /// From now on the target is told of drained output as soon as no more than so many bytes wait, not only when none
    /// do.
    func tellOutput(below bytes: Int) { unsafe bufferevent_setwatermark(raw, Int16(EV_WRITE), bytes, 0) }

    /// Copies the bytes into the output.
    func write(_ bytes: Span<UInt8>) {
        loop.checkThread()
        unsafe bytes.withUnsafeBytes { _ = unsafe bufferevent_write(raw, $0.baseAddress, $0.count) }
    }

    // MARK: Time-outs

    /// Sets how long nothing may arrive, and how long output may wait without progress; `nil` for any time.
    func setTimeouts(input: Duration?, output: Duration?) {
        loop.checkThread()
        var read = timeval(input ?? .zero)
        var write = timeval(output ?? .zero)
        unsafe withUnsafePointer(to: &read) { read in
            unsafe withUnsafePointer(to: &write) { write in
                _ = unsafe bufferevent_set_timeouts(raw, input == nil ? nil : read, output == nil ? nil : write)
            }
        }
    }

    // MARK: Callbacks

    private static let readCallback: bufferevent_data_cb = { _, context in
        guard let context = unsafe context else { return }
        unsafe Unmanaged<Box>.fromOpaque(context).takeUnretainedValue().target?.inputArrived()
    }

    private static let writeCallback: bufferevent_data_cb = { _, context in
        guard let context = unsafe context else { return }
        unsafe Unmanaged<Box>.fromOpaque(context).takeUnretainedValue().target?.outputDrained()
    }

    private static let eventCallback: bufferevent_event_cb = { raw, what, context in
        let code = errno
        guard let raw = unsafe raw, let context = unsafe context else { return }
        let box = unsafe Unmanaged<Box>.fromOpaque(context).takeUnretainedValue()
        guard let target = box.target else { return }
        let what = Int32(what)
        if what & BEV_EVENT_CONNECTED != 0 {
            target.handshakeFinished()
        } else if what & BEV_EVENT_TIMEOUT != 0 {
            target.failed(what & BEV_EVENT_WRITING != 0 ? .outputStalled : .idle)
        } else if what & BEV_EVENT_EOF != 0 {
            target.failed(.peerClosed)
        } else if let tls = box.tls {
            let tlsCode = unsafe bufferevent_get_openssl_error(raw)
            let reason =
                tls.verificationFailure.map { "certificate not trusted: \($0)" }
                ?? (tlsCode == 0 ? nil : TLSSession.reason(for: tlsCode))
            target.failed(reason.map { .tls($0) } ?? .system(SystemError(call: "read", code: code)))
        } else {
            target.failed(.system(SystemError(call: "read", code: code)))
        }
    }
}
