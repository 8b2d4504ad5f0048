internal import CNGHTTP2
import Reactor

/// The server side of one HTTP/2 connection: bytes in, requests out; answers in, bytes out.
///
/// Lives on its connection's loop. Sole owner of the nghttp2 session.
@safe
final class HTTP2Session: SandboxSession {
    private var session: OpaquePointer?
    private let connection: StreamConnection
    private let received: (SandboxRequest, Int32) -> Void
    private var streams: [Int32: Stream] = [:]
    /// Requests that became complete while nghttp2 was reading; it must not be called back from its callbacks.
    private var complete: [(SandboxRequest, Int32)] = []

    private final class Stream {
        var method = ""
        var path = ""
        var headers: [String: String] = [:]
        var repeatedHeaders: Set<String> = []
        var headCount = 0
        var body: [UInt8] = []
        var isBodyCut = false
        var answer: [UInt8] = []
        var sentCount = 0
    }

    /// The limit that follows the first accepted push; `nil` when it holds.
    private var laterLimit: Int?

    /// `received` gets each complete request with the number of the stream to answer on.
    init?(
        _ connection: StreamConnection, streams: StreamLimits = StreamLimits(),
        received: @escaping (SandboxRequest, Int32) -> Void
    ) {
        self.connection = connection
        self.received = received
        var callbacks: OpaquePointer?
        guard unsafe nghttp2_session_callbacks_new(&callbacks) == 0 else { return nil }
        defer { unsafe nghttp2_session_callbacks_del(callbacks) }
        unsafe nghttp2_session_callbacks_set_on_header_callback(callbacks, headerArrived)
        unsafe nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, dataArrived)
        unsafe nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, frameArrived)
        unsafe nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, streamClosed)
        let context = unsafe Unmanaged.passUnretained(self).toOpaque()
        guard unsafe nghttp2_session_server_new(&session, callbacks, context) == 0 else { return nil }
        laterLimit = streams.first == nil ? nil : streams.usual
        limitStreams(to: streams.first ?? streams.usual)
        flush()
    }

    private func limitStreams(to count: Int) {
        var settings = nghttp2_settings_entry(
            settings_id: Int32(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS.rawValue), value: UInt32(clamping: count))
        unsafe nghttp2_submit_settings(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), &settings, 1)
    }

    deinit { unsafe nghttp2_session_del(session) }

    func take(_ bytes: Span<UInt8>) -> Bool {
        let used = unsafe bytes.withUnsafeBufferPointer {
            unsafe nghttp2_session_mem_recv(session, $0.baseAddress, $0.count)
        }
        let requests = complete
        complete = []
        for (request, stream) in requests where connection.isOpen { received(request, stream) }
        flush()
        return used == bytes.count && isWanted
    }

    /// Whether nghttp2 has anything left to do: not after a GOAWAY with no streams left, nor after the peer's errors.
    private var isWanted: Bool {
        unsafe nghttp2_session_want_read(session) != 0 || nghttp2_session_want_write(session) != 0
    }

    func answer(_ answer: SandboxAnswer, on number: Int32) {
        guard let stream = streams[number] else { return }
        if let limit = laterLimit, (200..<300).contains(answer.status) {
            laterLimit = nil
            limitStreams(to: limit)
        }
        stream.answer = answer.body
        let fields = [(":status", "\(answer.status)")] + answer.headers.sorted { $0.key < $1.key }
        let texts = fields.map { (Array($0.0.utf8), Array($0.1.utf8)) }
        unsafe withHeaderFields(texts) { list in
            var source = unsafe nghttp2_data_provider()
            unsafe source.read_callback = bodyWanted
            if answer.body.isEmpty {
                unsafe nghttp2_submit_response(session, number, list.baseAddress, list.count, nil)
            } else {
                unsafe nghttp2_submit_response(session, number, list.baseAddress, list.count, &source)
            }
        }
        flush()
    }

    func goAway(refusing number: Int32?) {
        let last = unsafe nghttp2_session_get_last_proc_stream_id(session)
        // As APNs says it, with its reason. nghttp2 refuses the streams behind the last one by itself.
        let reason = Array("{\"reason\":\"Shutdown\"}".utf8)
        unsafe nghttp2_submit_goaway(
            session, UInt8(NGHTTP2_FLAG_NONE.rawValue), number.map { max(0, $0 - 2) } ?? last,
            NGHTTP2_NO_ERROR.rawValue, reason, reason.count)
        flush()
    }

    private func flush() {
        while true {
            var data: UnsafePointer<UInt8>?
            let count = unsafe nghttp2_session_mem_send(session, &data)
            guard count > 0, let data = unsafe data else { return }
            connection.send(unsafe Array(UnsafeBufferPointer(start: data, count: count)))
        }
    }

    private func withHeaderFields(
        _ texts: [([UInt8], [UInt8])], _ body: (UnsafeMutableBufferPointer<nghttp2_nv>) -> Void
    ) {
        var bytes: [UInt8] = []
        for (name, value) in texts { bytes += name + value }
        var fields: [nghttp2_nv] = unsafe []
        unsafe bytes.withUnsafeMutableBufferPointer { buffer in
            guard var place = buffer.baseAddress else { return }
            for (name, value) in texts {
                unsafe fields.append(
                    nghttp2_nv(
                        name: place, value: place + name.count, namelen: name.count, valuelen: value.count,
                        flags: UInt8(NGHTTP2_NV_FLAG_NONE.rawValue)))
                unsafe place += name.count + value.count
            }
            unsafe fields.withUnsafeMutableBufferPointer { unsafe body($0) }
        }
    }

    // MARK: From nghttp2

    /// - Returns: whether it is still within the limit.
    fileprivate func header(_ name: String, _ value: String, on number: Int32) -> Bool {
        let stream = streams[number] ?? Stream()
        streams[number] = stream
        stream.headCount += name.utf8.count + value.utf8.count + 32
        guard stream.headCount <= SandboxRequest.headLimit else { return false }
        switch name {
        case ":method": stream.method = value
        case ":path": stream.path = value
        default:
            if stream.headers[name] == nil { stream.headers[name] = value } else { stream.repeatedHeaders.insert(name) }
        }
        return true
    }

    fileprivate func data(_ bytes: UnsafeBufferPointer<UInt8>, on number: Int32) {
        guard let stream = streams[number], !stream.isBodyCut else { return }
        guard stream.body.count + bytes.count <= SandboxRequest.bodyLimit else {
            stream.isBodyCut = true
            return
        }
        unsafe stream.body.append(contentsOf: bytes)
    }

    fileprivate func ended(_ number: Int32) {
        guard let stream = streams[number] else { return }
        var request = SandboxRequest(
            method: stream.method, target: stream.path, headers: stream.headers, body: stream.body, version: "h2",
            connection: connection.id)
        request.repeatedHeaders = stream.repeatedHeaders
        request.isBodyCut = stream.isBodyCut
        request.mayControl = false
        complete.append((request, number))
    }

    fileprivate func closed(_ number: Int32) { streams[number] = nil }

    fileprivate func takeBody(
        of number: Int32, into buffer: UnsafeMutableBufferPointer<UInt8>
    ) -> (count: Int, isLast: Bool) {
        guard let stream = streams[number] else { return (0, true) }
        let count = min(buffer.count, stream.answer.count - stream.sentCount)
        for index in 0..<count { unsafe buffer[index] = stream.answer[stream.sentCount + index] }
        stream.sentCount += count
        return (count, stream.sentCount == stream.answer.count)
    }
}

private func owner(_ context: UnsafeMutableRawPointer?) -> HTTP2Session? {
    unsafe context.map { unsafe Unmanaged<HTTP2Session>.fromOpaque($0).takeUnretainedValue() }
}

private func headerArrived(
    _ session: OpaquePointer?, _ frame: UnsafePointer<nghttp2_frame>?, _ name: UnsafePointer<UInt8>?, _ nameLength: Int,
    _ value: UnsafePointer<UInt8>?, _ valueLength: Int, _ flags: UInt8, _ context: UnsafeMutableRawPointer?
) -> Int32 {
    guard let frame = unsafe frame else { return 0 }
    let nameText = unsafe String(decoding: UnsafeBufferPointer(start: name, count: nameLength), as: UTF8.self)
    let valueText = unsafe String(decoding: UnsafeBufferPointer(start: value, count: valueLength), as: UTF8.self)
    let isTaken = unsafe owner(context)?.header(nameText, valueText, on: frame.pointee.hd.stream_id) ?? true
    // Ends the stream, not the connection.
    return isTaken ? 0 : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue
}

private func dataArrived(
    _ session: OpaquePointer?, _ flags: UInt8, _ stream: Int32, _ data: UnsafePointer<UInt8>?, _ length: Int,
    _ context: UnsafeMutableRawPointer?
) -> Int32 {
    unsafe owner(context)?.data(UnsafeBufferPointer(start: data, count: length), on: stream)
    return 0
}

private func frameArrived(
    _ session: OpaquePointer?, _ frame: UnsafePointer<nghttp2_frame>?, _ context: UnsafeMutableRawPointer?
) -> Int32 {
    guard let frame = unsafe frame else { return 0 }
    let type = unsafe UInt32(frame.pointee.hd.type)
    let isLast = unsafe UInt32(frame.pointee.hd.flags) & NGHTTP2_FLAG_END_STREAM.rawValue != 0
    if isLast, type == NGHTTP2_DATA.rawValue || type == NGHTTP2_HEADERS.rawValue {
        unsafe owner(context)?.ended(frame.pointee.hd.stream_id)
    }
    return 0
}

private func streamClosed(
    _ session: OpaquePointer?, _ stream: Int32, _ code: UInt32, _ context: UnsafeMutableRawPointer?
) -> Int32 {
    unsafe owner(context)?.closed(stream)
    return 0
}

private func bodyWanted(
    _ session: OpaquePointer?, _ stream: Int32, _ buffer: UnsafeMutablePointer<UInt8>?, _ length: Int,
    _ flags: UnsafeMutablePointer<UInt32>?, _ source: UnsafeMutablePointer<nghttp2_data_source>?,
    _ context: UnsafeMutableRawPointer?
) -> Int {
    guard
        let taken = unsafe owner(context)?.takeBody(
            of: stream, into: UnsafeMutableBufferPointer(start: buffer, count: length))
    else { return 0 }
    if taken.isLast { unsafe flags?.pointee |= NGHTTP2_DATA_FLAG_EOF.rawValue }
    return taken.count
}
