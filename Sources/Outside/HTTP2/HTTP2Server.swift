import CNGHTTP2

/// The server's side of one HTTP/2 connection. The server gets received bytes and answers, and returns requests and
/// bytes to send.
///
/// The server uses no socket. After each use, the owner fetches the bytes to send by ``takeOutput()``. ``HTTP2Server``
/// is the sole owner of the nghttp2 session.
@safe
package final class HTTP2Server {
    /// The limits that the server sets for its client.
    package struct Limits: Hashable, Sendable {
        /// The maximum number of simultaneous requests.
        package var streams = 256
        /// The maximum size of a request's header fields in bytes (RFC 9113 section 6.5.2); a longer head ends its
        /// stream.
        package var head = 16 << 10
        /// The maximum size of a request's body in bytes; the end of a longer body is dropped.
        package var body = 1 << 20

        package init() {}
    }

    package struct Request: Sendable {
        package let stream: Int32
        package let method: String
        package let scheme: String
        package let authority: String
        package let path: String
        /// The header fields in their received order, with names in lower case.
        package let fields: [(name: String, value: String)]
        package let body: [UInt8]
        /// Whether the body was too long and was cut.
        package let isBodyCut: Bool
    }

    struct Stream {
        var pseudo: [String: String] = [:]
        var fields: [(name: String, value: String)] = []
        var headCount = 0
        var body: [UInt8] = []
        var isBodyCut = false
        var answer: [UInt8] = []
        var sentCount = 0
        var trailers: [(name: String, value: String)] = []
    }

    let limits: Limits
    private var session: OpaquePointer?
    var streams: [Int32: Stream] = [:]
    private var block = HeaderBlock()
    private var output: [UInt8] = []
    private var requests: [Request] = []
    private var isBroken = false

    /// Creates the server's side of a connection; `nil` if memory is lacking.
    package init?(limits: Limits = Limits()) {
        self.limits = limits
        guard let session = unsafe makeSession() else { return nil }
        unsafe self.session = session
        allow(streams: limits.streams)
    }

    deinit { unsafe nghttp2_session_del(session) }

    private func makeSession() -> OpaquePointer? {
        var callbacks: OpaquePointer?
        guard unsafe nghttp2_session_callbacks_new(&callbacks) == 0 else { return nil }
        defer { unsafe nghttp2_session_callbacks_del(callbacks) }
        unsafe setServerCallbacks(callbacks)
        var session: OpaquePointer?
        // The pointer is unretained, because the session is freed together with its ``HTTP2Server``.
        let context = unsafe Unmanaged.passUnretained(self).toOpaque()
        guard unsafe nghttp2_session_server_new(&session, callbacks, context) == 0 else { return nil }
        return unsafe session
    }

    // MARK: Connection

    /// Processes received bytes.
    ///
    /// - Returns: whether the bytes were HTTP/2; if not, the connection must be closed after its output was sent.
    package func received(_ bytes: Span<UInt8>) -> Bool {
        let used = unsafe bytes.withUnsafeBufferPointer {
            unsafe nghttp2_session_mem_recv(session, $0.baseAddress, $0.count)
        }
        if used != bytes.count { isBroken = true }
        produce()
        return !isBroken
    }

    /// Whether the connection still has requests or output. The value becomes false after a client's error, or when no
    /// stream is open after a GOAWAY.
    package var isWanted: Bool {
        guard !isBroken else { return false }
        return unsafe nghttp2_session_want_read(session) != 0 || nghttp2_session_want_write(session) != 0
    }

    /// Removes and returns the requests that became complete since the previous call.
    package func takeRequests() -> [Request] {
        defer { requests = [] }
        return requests
    }

    package func takeOutput() -> [UInt8] {
        defer { output = [] }
        return output
    }

    /// Tells the client how many simultaneous requests the server allows from now on.
    package func allow(streams count: Int) {
        let setting = nghttp2_settings_entry(
            settings_id: Int32(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS.rawValue), value: UInt32(clamping: count))
        _ = unsafe withUnsafePointer(to: setting) {
            unsafe nghttp2_submit_settings(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), $0, 1)
        }
        produce()
    }

    /// Sends a GOAWAY: the server accepts no more requests, and has not processed requests after `lastStream`.
    package func goAway(lastStream: Int32? = nil, _ code: HTTP2ErrorCode = .noError, reason: String = "") {
        let last = unsafe lastStream ?? nghttp2_session_get_last_proc_stream_id(session)
        let reason = Array(reason.utf8)
        unsafe nghttp2_submit_goaway(
            session, UInt8(NGHTTP2_FLAG_NONE.rawValue), last, code.rawValue, reason, reason.count)
        produce()
    }

    private func produce() {
        while true {
            var data: UnsafePointer<UInt8>?
            let count = unsafe nghttp2_session_mem_send(session, &data)
            guard count > 0, let data = unsafe data else {
                if count < 0 { isBroken = true }
                return
            }
            unsafe output.append(contentsOf: UnsafeBufferPointer(start: data, count: count))
        }
    }

    // MARK: Answers

    /// Whether the stream is still open for an answer.
    package func isOpen(_ number: Int32) -> Bool { streams[number] != nil }

    /// Answers the request of a stream, unless the stream was closed.
    ///
    /// By default, an answer without body and trailers ends with its HEADERS frame. If `endsWithHead` is false, an
    /// answer without body and trailers ends with an empty DATA frame.
    package func answer(
        _ number: Int32, status: Int, fields: [(name: String, value: String)] = [], body: [UInt8] = [],
        trailers: [(name: String, value: String)] = [], endsWithHead: Bool = true
    ) {
        guard streams[number] != nil else { return }
        streams[number]?.answer = body
        streams[number]?.trailers = trailers
        fill(status, fields)
        unsafe block.withFields { list, count in
            guard body.isEmpty, trailers.isEmpty, endsWithHead else {
                var source = unsafe nghttp2_data_provider()
                unsafe source.read_callback = answerBodyWanted
                return unsafe nghttp2_submit_response(session, number, list, count, &source)
            }
            return unsafe nghttp2_submit_response(session, number, list, count, nil)
        }
        produce()
    }

    /// Sends an interim response (1xx) before the answer.
    package func hint(_ number: Int32, status: Int, fields: [(name: String, value: String)] = []) {
        guard streams[number] != nil else { return }
        fill(status, fields)
        unsafe block.withFields { list, count in
            unsafe nghttp2_submit_headers(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), number, nil, list, count, nil)
        }
        produce()
    }

    package func reset(_ number: Int32, _ code: HTTP2ErrorCode) {
        unsafe nghttp2_submit_rst_stream(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), number, code.rawValue)
        produce()
    }

    private func fill(_ status: Int, _ fields: [(name: String, value: String)]) {
        block.removeAll()
        block.append(":status", "\(status)")
        for field in fields { block.append(field.name, field.value) }
    }

    // MARK: From nghttp2

    func ended(_ number: Int32) {
        guard let stream = streams[number] else { return }
        requests.append(
            Request(
                stream: number, method: stream.pseudo[":method"] ?? "", scheme: stream.pseudo[":scheme"] ?? "",
                authority: stream.pseudo[":authority"] ?? "", path: stream.pseudo[":path"] ?? "",
                fields: stream.fields, body: stream.body, isBodyCut: stream.isBodyCut))
        streams[number]?.body = []
        streams[number]?.fields = []
    }

    func submitTrailers(_ number: Int32, _ trailers: [(name: String, value: String)]) {
        block.removeAll()
        for field in trailers { block.append(field.name, field.value) }
        unsafe block.withFields { list, count in unsafe nghttp2_submit_trailer(session, number, list, count) }
    }
}
