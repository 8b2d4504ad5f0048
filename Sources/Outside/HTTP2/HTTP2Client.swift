import CNGHTTP2

/// The client's side of one HTTP/2 connection. The client gets requests and received bytes, and returns results of
/// requests and bytes to send.
///
/// The client uses neither a socket nor a clock. After each input or request, the owner fetches the bytes to send by
/// ``takeOutput(_:)``, and the finished requests by ``takeFinished(into:)``. ``HTTP2Client`` is the sole owner of the
/// nghttp2 session.
@safe
package final class HTTP2Client {
    /// The client's own limits, besides the server's limits.
    package struct Limits: Hashable, Sendable {
        /// The maximum number of simultaneous requests, besides the server's own limit.
        package var streams = 1000
        /// The maximum size of a response's header fields in bytes.
        package var head = 16 << 10

        package init() {}
    }

    package struct Response: Sendable {
        package let status: Int
        /// The header fields of the response as lines `name: value`, each with a line feed.
        package let head: [UInt8]
        package let body: [UInt8]
    }

    package enum Outcome: Sendable {
        /// The response is complete, with any final status, such as 200 or 500.
        case answered(Response)
        /// The server did not process the request, so the request can safely be sent again on another connection.
        case refused
        /// The server ended the stream before its response was complete.
        case reset(HTTP2ErrorCode)
        /// The response violates HTTP, or its head is too long.
        case malformed(HTTP2ErrorCode)
        /// The body of the response is longer than the request allows. The associated response has no body.
        case bodyTooLarge(Response)
        /// The request cannot be sent; the associated text is nghttp2's reason.
        case unsendable(String)
    }

    /// The result of a finished request; the stream index of this request can be used again.
    package struct Finished: Sendable {
        package let stream: Int
        package let outcome: Outcome
    }

    /// A GOAWAY frame, by which a server announces that it closes the connection.
    package struct GoAway: Hashable, Sendable {
        package let code: HTTP2ErrorCode
        /// The debug data, cut and made printable.
        package let reason: String
    }

    struct Stream {
        /// The stream id of HTTP/2; 0 for a free entry.
        var number: Int32 = 0
        var isAbandoned = false
        var hasFinalHead = false
        var hasEnded = false
        var isHeadTooLong = false
        var isBodyTooLarge = false
        var wasReset = false
        var status = 0
        var sentBody = 0
        var body: [UInt8] = []
        var head: [UInt8] = []
        var answer: [UInt8] = []
        var answerLimit = 0
        /// The number of bytes that the connection had produced before the request.
        var offset = 0
    }

    let limits: Limits
    private var session: OpaquePointer?
    var streams: [Stream] = []
    private var free: [Int] = []
    private var output: [UInt8] = []
    private var finished: [Finished] = []
    private var isBroken = false
    /// The header lines of one response so far.
    var head: [UInt8] = []
    /// The stream to which the header lines in ``head`` belong; `nil` while header fields, such as trailers, are
    /// ignored.
    var headStream: Int?

    /// The number of output bytes produced, including bytes not fetched yet.
    private(set) package var producedCount = 0
    /// The number of unfinished requests on the connection. A cancelled request counts until the server knows about the
    /// end of its stream.
    private(set) package var openCount = 0
    /// Whether the server's SETTINGS frame has arrived.
    private(set) package var hasSettings = false
    private(set) package var goAway: GoAway?
    /// The number of the client's PINGs that the server has answered.
    private(set) package var pongCount = 0
    /// Whether unused stream ids are left.
    private var hasNumbers = true
    private var serverLimit = HTTP2Client.limitBeforeSettings

    /// The maximum number of simultaneous requests before the server's settings arrive. The limit is one request,
    /// because Apple's servers begin with this limit.
    private static let limitBeforeSettings = 1
    /// The flow-control window: the bytes of response bodies that the server may send without a WINDOW_UPDATE.
    private static let window: Int32 = 1 << 20
    private static let reasonLimit = 200

    /// Creates the client's side of a connection; `nil` if memory is lacking.
    package init?(limits: Limits = Limits()) {
        self.limits = limits
        guard let session = unsafe makeSession() else { return nil }
        unsafe self.session = session
        let settings = [
            nghttp2_settings_entry(settings_id: Int32(NGHTTP2_SETTINGS_ENABLE_PUSH.rawValue), value: 0),
            nghttp2_settings_entry(
                settings_id: Int32(NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE.rawValue),
                value: UInt32(clamping: limits.head)),
        ]
        guard
            unsafe nghttp2_submit_settings(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), settings, settings.count) == 0,
            unsafe nghttp2_session_set_local_window_size(
                session, UInt8(NGHTTP2_FLAG_NONE.rawValue), 0, Self.window) == 0
        else { return nil }
        produce()
    }

    deinit { unsafe nghttp2_session_del(session) }

    private func makeSession() -> OpaquePointer? {
        var callbacks: OpaquePointer?
        guard unsafe nghttp2_session_callbacks_new(&callbacks) == 0 else { return nil }
        defer { unsafe nghttp2_session_callbacks_del(callbacks) }
        unsafe setClientCallbacks(callbacks)
        var session: OpaquePointer?
        // The pointer is unretained, because the session is freed together with its ``HTTP2Client``.
        let context = unsafe Unmanaged.passUnretained(self).toOpaque()
        guard unsafe nghttp2_session_client_new(&session, callbacks, context) == 0 else { return nil }
        return unsafe session
    }

    // MARK: State

    /// The maximum number of simultaneous requests that both sides allow now.
    package var streamLimit: Int { min(serverLimit, limits.streams) }

    /// Whether the connection can take another request, now or after an active request.
    package var acceptsRequests: Bool { goAway == nil && hasNumbers && !isBroken }

    package var hasRoom: Bool { acceptsRequests && openCount < streamLimit }

    /// Whether the connection still has requests or output. The value becomes false after a server's error, or when all
    /// requests are answered after a GOAWAY.
    package var isWanted: Bool {
        guard !isBroken else { return false }
        return unsafe nghttp2_session_want_read(session) != 0 || nghttp2_session_want_write(session) != 0
    }

    // MARK: Requests

    /// Starts a request.
    ///
    /// - Parameters:
    ///   - head: the header fields, beginning with pseudo-header fields such as `:method`.
    ///   - body: the body of the request, kept until it is sent.
    ///   - answerLimit: the maximum size of the response body in bytes.
    /// - Returns: the small index of the request's stream; `nil` if the connection accepts no request now.
    package func start(_ head: inout HeaderBlock, body: [UInt8], answerLimit: Int) -> Int? {
        guard hasRoom else { return nil }
        let index = takeStream()
        let context = unsafe UnsafeMutableRawPointer(bitPattern: index + 1)
        let number = unsafe head.withFields { fields, count in
            guard !body.isEmpty else { return unsafe nghttp2_submit_request(session, nil, fields, count, nil, context) }
            var provider = unsafe nghttp2_data_provider()
            unsafe provider.read_callback = requestBodyWanted
            return unsafe nghttp2_submit_request(session, nil, fields, count, &provider, context)
        }
        guard number > 0 else {
            release(index)
            // NGHTTP2_ERR_STREAM_ID_NOT_AVAILABLE means that 2^30 requests have used up the stream ids. All errors
            // except NGHTTP2_ERR_STREAM_ID_NOT_AVAILABLE mean that memory is lacking.
            hasNumbers = false
            return nil
        }
        streams[index].number = number
        streams[index].body = body
        streams[index].answerLimit = answerLimit
        streams[index].offset = producedCount
        produce()
        return index
    }

    /// Cancels a request without reporting a result, and tells the server that the response is not needed.
    package func cancel(_ stream: Int) {
        guard streams.indices.contains(stream), streams[stream].number != 0, !streams[stream].isAbandoned else {
            return
        }
        streams[stream].isAbandoned = true
        unsafe nghttp2_submit_rst_stream(
            session, UInt8(NGHTTP2_FLAG_NONE.rawValue), streams[stream].number, NGHTTP2_CANCEL.rawValue)
        produce()
    }

    /// Whether at least one byte of an unfinished request was written to the connection. The argument `unsentCount` is
    /// the number of bytes that were fetched but not written.
    package func wasWritten(_ stream: Int, unsentCount: Int) -> Bool {
        // nghttp2 gives no stream id to a request that it refused because the connection is ending.
        guard streams.indices.contains(stream), streams[stream].number != 0 else { return false }
        return streams[stream].offset < producedCount - output.count - unsentCount
    }

    private func takeStream() -> Int {
        openCount += 1
        if let index = free.popLast() { return index }
        streams.append(Stream())
        return streams.count - 1
    }

    private func release(_ index: Int) {
        openCount -= 1
        if streams[index].number != 0 { streams[index] = Stream() }
        free.append(index)
    }

    // MARK: Connection

    /// Sends a PING, which the server must answer.
    package func ping() {
        unsafe nghttp2_submit_ping(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), nil)
        produce()
    }

    /// Sends a GOAWAY; called before the connection is closed.
    package func close() {
        unsafe nghttp2_session_terminate_session(session, NGHTTP2_NO_ERROR.rawValue)
        produce()
    }

    /// Processes received bytes.
    ///
    /// - Returns: whether the connection may continue.
    package func received(_ bytes: Span<UInt8>) -> Bool {
        let used = unsafe bytes.withUnsafeBufferPointer {
            unsafe nghttp2_session_mem_recv(session, $0.baseAddress, $0.count)
        }
        if used != bytes.count { isBroken = true }
        produce()
        return isWanted
    }

    /// Passes the bytes to send, if any, to `send`, and drops them.
    package func takeOutput(_ send: (Span<UInt8>) -> Void) {
        guard !output.isEmpty else { return }
        let bytes = output
        send(bytes.span)
        if output.count > Self.keptOutput { output = [] } else { output.removeAll(keepingCapacity: true) }
    }

    private static let keptOutput = 1 << 20

    package var outputCount: Int { output.count }

    /// Replaces the array's contents by the requests that have finished since the previous call.
    package func takeFinished(into list: inout [Finished]) {
        list.removeAll(keepingCapacity: true)
        guard !finished.isEmpty else { return }
        swap(&list, &finished)
    }

    package var hasFinished: Bool { !finished.isEmpty }

    private func produce() {
        while true {
            var data: UnsafePointer<UInt8>?
            let count = unsafe nghttp2_session_mem_send(session, &data)
            guard count > 0, let data = unsafe data else {
                if count < 0 { isBroken = true }
                return
            }
            unsafe output.append(contentsOf: UnsafeBufferPointer(start: data, count: count))
            producedCount += count
        }
    }

    // MARK: From nghttp2

    func settingsArrived() {
        hasSettings = true
        let limit = unsafe nghttp2_session_get_remote_settings(session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS)
        serverLimit = Int(limit)
    }

    func pongArrived() { pongCount += 1 }

    func goAwayArrived(_ code: UInt32, _ reason: UnsafeBufferPointer<UInt8>) {
        let text = unsafe reason.prefix(Self.reasonLimit).map { (0x20..<0x7f).contains($0) ? $0 : UInt8(ascii: "?") }
        goAway = GoAway(code: HTTP2ErrorCode(rawValue: code), reason: String(decoding: text, as: UTF8.self))
    }

    func stream(_ number: Int32) -> Int? {
        guard let context = unsafe nghttp2_session_get_stream_user_data(session, number) else { return nil }
        let index = Int(bitPattern: context) - 1
        return streams.indices.contains(index) && streams[index].number == number ? index : nil
    }

    /// Ends a stream before the request's body was completely sent, because the response is complete or too long.
    func stopSending(_ index: Int) {
        unsafe nghttp2_submit_rst_stream(
            session, UInt8(NGHTTP2_FLAG_NONE.rawValue), streams[index].number, NGHTTP2_CANCEL.rawValue)
    }

    func closed(_ index: Int, _ code: UInt32) {
        let code = HTTP2ErrorCode(rawValue: code)
        var stream = Stream()
        swap(&stream, &streams[index])
        release(index)
        guard !stream.isAbandoned else { return }
        let outcome: Outcome
        if stream.isBodyTooLarge {
            outcome = .bodyTooLarge(Response(status: stream.status, head: stream.head, body: []))
        } else if stream.isHeadTooLong {
            outcome = .malformed(code)
        } else if stream.hasEnded, stream.hasFinalHead {
            outcome = .answered(Response(status: stream.status, head: stream.head, body: stream.answer))
        } else if code == .refusedStream, !stream.hasFinalHead {
            outcome = .refused
        } else if stream.wasReset || goAway != nil {
            outcome = .reset(code)
        } else {
            outcome = .malformed(code)
        }
        finished.append(Finished(stream: index, outcome: outcome))
    }

    /// Handles a request that nghttp2 accepted earlier but cannot send now.
    func notSent(_ number: Int32, isForbidden: Bool, _ reason: String) {
        guard let index = streams.firstIndex(where: { $0.number == number }) else { return }
        let isAbandoned = streams[index].isAbandoned
        release(index)
        guard !isAbandoned else { return }
        finished.append(Finished(stream: index, outcome: isForbidden ? .refused : .unsendable(reason)))
    }
}
