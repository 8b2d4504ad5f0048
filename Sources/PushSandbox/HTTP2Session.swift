internal import CNGHTTP2
import Reactor

/// The server side of one HTTP/2 connection: bytes in, requests out; answers in, bytes out.
///
/// Lives on its connection's loop. Sole owner of the nghttp2 session.
@safe
final class HTTP2Session {
    /// A complete request with the stream to answer on.
    var received: (SandboxRequest, _ stream: Int32) -> Void = { _, _ in }

    private var session: OpaquePointer?
    private let connection: StreamConnection
    private var streams: [Int32: Stream] = [:]
    private var complete: [(SandboxRequest, Int32)] = []

    private final class Stream {
        var method = ""
        var path = ""
        var headers: [String: String] = [:]
        var body: [UInt8] = []
        var answer: [UInt8] = []
    }

    private static let bodyLimit = 1 << 20

    init?(_ connection: StreamConnection) {
        self.connection = connection
        var callbacks: OpaquePointer?
        guard unsafe nghttp2_session_callbacks_new(&callbacks) == 0 else { return nil }
        defer { unsafe nghttp2_session_callbacks_del(callbacks) }
        unsafe nghttp2_session_callbacks_set_on_header_callback(callbacks, headerArrived)
        unsafe nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, dataArrived)
        unsafe nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, frameArrived)
        unsafe nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, streamClosed)
        let context = unsafe Unmanaged.passUnretained(self).toOpaque()
        guard unsafe nghttp2_session_server_new(&session, callbacks, context) == 0 else { return nil }
        var settings = nghttp2_settings_entry(
            settings_id: Int32(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS.rawValue), value: 1000)
        unsafe nghttp2_submit_settings(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), &settings, 1)
        flush()
    }

    deinit { unsafe nghttp2_session_del(session) }

    /// Takes bytes of the connection.
    ///
    /// - Returns: whether they were HTTP/2.
    func take(_ bytes: Span<UInt8>) -> Bool {
        let used = unsafe bytes.withUnsafeBufferPointer {
            unsafe nghttp2_session_mem_recv(session, $0.baseAddress, $0.count)
        }
        flush()
        // Answered only now: nghttp2 may not be made to write while it reads.
        let requests = complete
        complete = []
        for (request, stream) in requests { received(request, stream) }
        return used == bytes.count
    }

    func answer(_ answer: SandboxAnswer, on number: Int32) {
        guard let stream = streams[number] else { return }
        stream.answer = answer.body
        let fields = [(":status", "\(answer.status)")] + answer.headers.map { ($0.key, $0.value) }
        var texts = fields.map { (Array($0.0.utf8), Array($0.1.utf8)) }
        unsafe withHeaderFields(&texts) { list in
            var source = unsafe nghttp2_data_provider()
            unsafe source.read_callback = bodyWanted
            unsafe nghttp2_submit_response(session, number, list.baseAddress, list.count, &source)
        }
        flush()
    }

    /// Tells the peer that no more streams are taken.
    func goAway() {
        unsafe nghttp2_submit_goaway(
            session, UInt8(NGHTTP2_FLAG_NONE.rawValue), nghttp2_session_get_last_proc_stream_id(session), 0, nil, 0)
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
        _ texts: inout [([UInt8], [UInt8])], _ body: (UnsafeMutableBufferPointer<nghttp2_nv>) -> Void
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

    fileprivate func header(_ name: String, _ value: String, on number: Int32) {
        let stream = streams[number] ?? Stream()
        streams[number] = stream
        switch name {
        case ":method": stream.method = value
        case ":path": stream.path = value
        default: stream.headers[name] = value
        }
    }

    fileprivate func data(_ bytes: UnsafeBufferPointer<UInt8>, on number: Int32) {
        guard let stream = streams[number], stream.body.count + bytes.count <= Self.bodyLimit else { return }
        unsafe stream.body.append(contentsOf: bytes)
    }

    fileprivate func ended(_ number: Int32) {
        guard let stream = streams[number] else { return }
        let request = SandboxRequest(
            method: stream.method, target: stream.path, headers: stream.headers, body: stream.body, version: "h2",
            connection: connection.id)
        complete.append((request, number))
    }

    fileprivate func closed(_ number: Int32) { streams[number] = nil }

    fileprivate func takeBody(of number: Int32, into buffer: UnsafeMutableBufferPointer<UInt8>) -> (
        count: Int, isLast: Bool
    ) {
        guard let stream = streams[number] else { return (0, true) }
        let count = min(buffer.count, stream.answer.count)
        for index in 0..<count { unsafe buffer[index] = stream.answer[index] }
        stream.answer.removeFirst(count)
        return (count, stream.answer.isEmpty)
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
    unsafe owner(context)?.header(nameText, valueText, on: frame.pointee.hd.stream_id)
    return 0
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
