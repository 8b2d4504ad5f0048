import CWSlay

/// The server's side of one WebSocket after its handshake (RFC 6455 section 5). The session performs no I/O: it gets
/// received bytes, and returns messages and bytes to send.
///
/// The session answers pings, and joins the fragments of messages. A protocol error ends the session with the close
/// code of the RFC.
///
/// The library wslay would allocate as many bytes as a frame announces. The session assembles messages itself, with
/// memory only for bytes that have arrived.
///
/// - The type is `@unchecked Sendable`, because only the owner of the connection uses it.
@safe
package final class WebSocketSession: @unchecked Sendable {
    /// Why the session is closed, as a close code of RFC 6455 section 7.4.1.
    package enum CloseCode: UInt16, Sendable {
        case goingAway = 1001
        case policyViolation = 1008
    }

    private let context: wslay_event_context_ptr
    private let traffic: Traffic

    /// The number of bytes that are processed in one step, as many as wslay reads.
    private static let chunk = 4096

    /// Starts a session; `nil` if memory is lacking.
    ///
    /// - Parameter messageLimit: the maximum length of a message in bytes; a longer message ends the session with code
    ///   1009.
    package init?(messageLimit: Int) {
        traffic = Traffic(messageLimit: max(messageLimit, 0))
        var callbacks = wslay_event_callbacks()
        unsafe callbacks.recv_callback = { context, room, count, _, traffic in
            guard let room = unsafe room, let traffic = unsafe Traffic.of(traffic) else { return -1 }
            let taken = unsafe traffic.read(into: room, upTo: count)
            if taken == 0 { unsafe wslay_event_set_error(context, Int32(WSLAY_ERR_WOULDBLOCK.rawValue)) }
            return taken == 0 ? -1 : taken
        }
        unsafe callbacks.send_callback = { _, bytes, count, _, traffic in
            guard let traffic = unsafe Traffic.of(traffic) else { return -1 }
            unsafe traffic.output.append(contentsOf: UnsafeBufferPointer(start: bytes, count: count))
            return count
        }
        unsafe callbacks.on_frame_recv_start_callback = { context, frame, traffic in
            guard let frame = unsafe frame?.pointee, let traffic = unsafe Traffic.of(traffic) else { return }
            guard !traffic.begin(frame.opcode, frame.payload_length) else { return }
            unsafe wslay_event_shutdown_read(context)
            _ = unsafe wslay_event_queue_close(context, UInt16(WSLAY_CODE_MESSAGE_TOO_BIG.rawValue), nil, 0)
        }
        unsafe callbacks.on_frame_recv_chunk_callback = { _, chunk, traffic in
            guard let chunk = unsafe chunk?.pointee, let traffic = unsafe Traffic.of(traffic) else { return }
            unsafe traffic.take(UnsafeBufferPointer(start: chunk.data, count: chunk.data_length))
        }
        unsafe callbacks.on_msg_recv_callback = { _, arrived, traffic in
            guard let arrived = unsafe arrived?.pointee, let traffic = unsafe Traffic.of(traffic) else { return }
            unsafe traffic.end(arrived.opcode)
        }
        var made: wslay_event_context_ptr?
        let traffic = unsafe Unmanaged.passUnretained(traffic).toOpaque()
        // At the start of a session, wslay fails only if memory is lacking.
        guard unsafe wslay_event_context_server_init(&made, &callbacks, traffic) == 0, let made = unsafe made else {
            return nil
        }
        unsafe context = made
        // The object `traffic` assembles messages and checks their length; wslay handles pings and closes.
        unsafe wslay_event_config_set_no_buffering(context, 1)
    }

    deinit { unsafe wslay_event_context_free(context) }

    /// The input and output of wslay, which refers to the object by an unretained pointer.
    @safe
    private final class Traffic {
        /// The bytes that wslay processes; `nil` while it is not running.
        var input: UnsafeBufferPointer<UInt8>?
        var taken = 0
        var messages: [[UInt8]] = []
        var output: [UInt8] = []
        private let messageLimit: Int
        /// The part of the current message that has arrived. Ping and close frames may arrive between the frames of a
        /// message.
        private var message: [UInt8] = []
        /// Whether the current frame is part of a message, and not a ping, pong or close.
        private var isPart = false

        init(messageLimit: Int) { self.messageLimit = messageLimit }

        /// Handles the beginning of a frame.
        ///
        /// - Returns: false if the frame makes the message too long.
        func begin(_ opcode: UInt8, _ length: UInt64) -> Bool {
            isPart = opcode < UInt8(WSLAY_CONNECTION_CLOSE.rawValue)
            guard isPart, length > UInt64(messageLimit - message.count) else { return true }
            isPart = false
            message = []
            return false
        }

        func take(_ bytes: UnsafeBufferPointer<UInt8>) {
            guard isPart, !bytes.isEmpty else { return }
            // A message's memory grows only by an eighth, because every connection has such memory.
            let needed = message.count + bytes.count
            if message.capacity < needed { message.reserveCapacity(needed + max(needed / 8, 64)) }
            unsafe message.append(contentsOf: bytes)
        }

        /// Handles the end of a message, ping or close. The session keeps only messages.
        func end(_ opcode: UInt8) {
            guard isPart, opcode < UInt8(WSLAY_CONNECTION_CLOSE.rawValue) else { return }
            messages.append(message)
            message = []
        }

        static func of(_ pointer: UnsafeMutableRawPointer?) -> Traffic? {
            unsafe pointer.map { unsafe Unmanaged<Traffic>.fromOpaque($0).takeUnretainedValue() }
        }

        func read(into room: UnsafeMutablePointer<UInt8>, upTo count: Int) -> Int {
            guard let input = unsafe input, let base = input.baseAddress else { return 0 }
            let number = min(count, input.count - taken)
            guard number > 0 else { return 0 }
            unsafe room.update(from: base + taken, count: number)
            taken += number
            return number
        }
    }

    /// Processes a part of the bytes; ``takeMessages()`` then returns the complete messages.
    ///
    /// - Returns: how many bytes were processed; 0 after the end of the session.
    package func receive(_ bytes: Span<UInt8>) -> Int {
        guard !bytes.isEmpty, !isOver else { return 0 }
        let piece = bytes.extracting(first: Self.chunk)
        unsafe piece.withUnsafeBufferPointer { buffer in
            unsafe traffic.input = buffer
            traffic.taken = 0
            _ = unsafe wslay_event_recv(context)
            unsafe traffic.input = nil
        }
        flush()
        return traffic.taken
    }

    /// Removes and returns the complete messages, text or binary.
    package func takeMessages() -> [[UInt8]] {
        var messages: [[UInt8]] = []
        swap(&messages, &traffic.messages)
        return messages
    }

    /// Queues a message, as text if it is UTF-8 and otherwise as binary, because browsers refuse invalid text.
    package func send(_ message: [UInt8]) {
        let isText = String(validating: message, as: UTF8.self) != nil
        queue(isText ? WSLAY_TEXT_FRAME : WSLAY_BINARY_FRAME, message)
    }

    package func ping() { queue(WSLAY_PING, []) }

    /// Queues the close frame, after which no message can be sent.
    package func close(_ code: CloseCode) {
        _ = unsafe wslay_event_queue_close(context, code.rawValue, nil, 0)
        flush()
    }

    /// Whether no more messages will arrive, because the session was closed or the peer violated the protocol.
    package var isOver: Bool {
        unsafe wslay_event_get_read_enabled(context) == 0 || wslay_event_get_close_sent(context) != 0
            || wslay_event_get_close_received(context) != 0
    }

    /// Removes and returns the bytes for the peer.
    package func takeOutput() -> [UInt8] {
        var bytes: [UInt8] = []
        swap(&bytes, &traffic.output)
        return bytes
    }

    private func queue(_ opcode: wslay_opcode, _ bytes: [UInt8]) {
        unsafe bytes.withUnsafeBufferPointer { buffer in
            var message = unsafe wslay_event_msg(
                opcode: UInt8(opcode.rawValue), msg: buffer.baseAddress, msg_length: buffer.count)
            // A failure is ignored, because wslay refuses messages only after the closing handshake.
            _ = unsafe wslay_event_queue_msg(context, &message)
        }
        flush()
    }

    private func flush() { _ = unsafe wslay_event_send(context) }
}
