package import Addressing
internal import CEvent
internal import Glibc
package import Reactor
internal import Timekeeping

/// An HTTP/1.1 server on a loop: any number of sockets, one handler.
///
/// Releasing it closes it. Requests that wait for their answer stay in ``waiting``; libevent tells when a connection takes
/// one with it.
///
/// - `@unchecked Sendable` because every use is checked to be on the loop's thread.
@safe
package final class HTTPListener: @unchecked Sendable {
    /// Limits of each connection.
    package struct Limits: Hashable, Sendable {
        /// Request line and header fields; more is answered with 400.
        package var head = 16 << 10
        /// A longer body is answered with 413.
        package var body = 1 << 20
        /// How long a connection may wait for the peer's next byte, or for the peer to take ours.
        package var idleTimeout: Duration = .seconds(30)

        package init() {}
    }

    /// Called on the loop; the answer may be sent from within or later.
    package typealias Handler = (HTTPRequest, HTTPReply) -> Void

    private let loop: EventLoop
    private let handler: Handler
    private var server: Server?
    private var waiting: [UInt64: OpaquePointer] = unsafe [:]
    private var lastNumber: UInt64 = 0
    private var retryTimer: LoopTimer?

    private static let retryDelay: Duration = .milliseconds(200)
    private static let methods = [
        EVHTTP_REQ_GET, EVHTTP_REQ_POST, EVHTTP_REQ_HEAD, EVHTTP_REQ_PUT, EVHTTP_REQ_DELETE, EVHTTP_REQ_OPTIONS,
        EVHTTP_REQ_PATCH,
    ]

    package init(on loop: EventLoop, limits: Limits = Limits(), handler: @escaping Handler) throws(SystemError) {
        self.loop = loop
        self.handler = handler
        let server = try Server(on: loop)
        self.server = server
        server.box.listener = self
        let http = unsafe server.http
        unsafe evhttp_set_max_headers_size(http, limits.head)
        unsafe evhttp_set_max_body_size(http, limits.body)
        let (seconds, attoseconds) = max(limits.idleTimeout, .milliseconds(1)).components
        var timeout = timeval(tv_sec: Int(seconds), tv_usec: Int(attoseconds / 1_000_000_000_000))
        unsafe evhttp_set_timeout_tv(http, &timeout)
        unsafe evhttp_set_allowed_methods(http, UInt16(Self.methods.reduce(0) { $0 | $1.rawValue }))
        unsafe evhttp_set_default_content_type(http, nil)
        unsafe evhttp_set_gencb(http, requestArrived, server.context)
        retryTimer = try LoopTimer(on: loop) { [weak self] in self?.server?.setAccepting(true) }
    }

    /// A server whose handler is a task; its answer is sent when the task gives it.
    package convenience init(
        on loop: EventLoop, limits: Limits = Limits(),
        respond: @escaping @Sendable (HTTPRequest) async -> HTTPResponse
    ) throws(SystemError) {
        try self.init(on: loop, limits: limits) { request, reply in
            Task { reply.send(await respond(request)) }
        }
    }

    // MARK: Sockets

    /// Listens on one more address; gives it with the port that was chosen for port 0.
    @discardableResult
    package func listen(on endpoint: Endpoint) throws(SystemError) -> Endpoint {
        let socket = try ListeningSocket(boundTo: endpoint)
        let local = socket.local
        try listen(socket)
        return local
    }

    /// Listens on a socket file that only this user may connect to. The file goes when the listener is closed.
    package func listen(unixPath: String) throws(SystemError) {
        try listen(ListeningSocket(unixPath: unixPath))
        server?.unixPaths.append(unixPath)
    }

    private func listen(_ socket: consuming ListeningSocket) throws(SystemError) {
        guard let server else { throw SystemError(call: "listen", code: EBADF) }
        let descriptor = socket.release()
        let flags = UInt32(LEV_OPT_CLOSE_ON_FREE) | UInt32(LEV_OPT_CLOSE_ON_EXEC)
        // Backlog 0: it listens already.
        guard
            let listener = unsafe evconnlistener_new(OpaquePointer(loop.rawBase), nil, nil, flags, 0, descriptor)
        else {
            Glibc.close(descriptor)
            throw SystemError(call: "evconnlistener_new", code: ENOMEM)
        }
        unsafe evconnlistener_set_error_cb(listener, acceptFailed)
        guard unsafe evhttp_bind_listener(server.http, listener) != nil else {
            unsafe evconnlistener_free(listener)
            throw SystemError(call: "evhttp_bind_listener", code: ENOMEM)
        }
        unsafe server.add(listener)
    }

    /// Ends all connections, with requests that wait, and stops listening.
    package func close() {
        loop.checkThread()
        retryTimer = nil
        unsafe waiting = unsafe [:]
        server = nil
    }

    // MARK: Without descriptors

    /// libevent would report the same connection again and again.
    fileprivate func pauseAccepting() {
        server?.setAccepting(false)
        retryTimer?.arm(at: loop.now + Self.retryDelay)
    }

    // MARK: Requests

    fileprivate func received(_ raw: OpaquePointer) {
        lastNumber += 1
        unsafe waiting[lastNumber] = raw
        unsafe evhttp_connection_set_closecb(evhttp_request_get_connection(raw), connectionClosed, server?.context)
        let request = unsafe HTTPRequest(raw)
        handler(request, HTTPReply(to: lastNumber, on: loop, of: self))
    }

    fileprivate func closed(_ connection: OpaquePointer) {
        unsafe waiting = unsafe waiting.filter { unsafe evhttp_request_get_connection($0.value) != connection }
    }

    func answer(_ number: UInt64, with response: HTTPResponse) {
        guard let raw = unsafe waiting.removeValue(forKey: number) else { return }
        let fields = unsafe evhttp_request_get_output_headers(raw)
        for field in response.fields {
            // Refuses line ends in names and values; such a field is left out.
            unsafe evhttp_add_header(fields, field.name, field.value)
        }
        let body = unsafe evbuffer_new()
        defer { if let body = unsafe body { unsafe evbuffer_free(body) } }
        if unsafe evhttp_request_get_command(raw) == EVHTTP_REQ_HEAD {
            unsafe evhttp_add_header(fields, "Content-Length", "\(response.body.count)")
        } else {
            unsafe response.body.withUnsafeBytes { _ = unsafe evbuffer_add(body, $0.baseAddress, $0.count) }
        }
        unsafe evhttp_send_reply(raw, Int32(clamping: response.status), nil, body)
    }

    /// Requests that were received and not yet answered.
    package var waitingCount: Int { unsafe waiting.count }
}

// MARK: Ownership

/// Sole owner of one `evhttp` and, through it, of sockets and connections; frees them on the loop.
///
/// libevent's callbacks get a box that holds the listener weakly, since the listener may be released on any thread.
@safe
private final class Server {
    private let loop: EventLoop
    let http: OpaquePointer
    let box = Box()
    private var listeners: [OpaquePointer] = unsafe []
    var unixPaths: [String] = []

    final class Box {
        weak var listener: HTTPListener?
    }

    init(on loop: EventLoop) throws(SystemError) {
        guard let http = unsafe evhttp_new(OpaquePointer(loop.rawBase)) else {
            throw SystemError(call: "evhttp_new", code: ENOMEM)
        }
        self.loop = loop
        unsafe self.http = http
    }

    deinit {
        let keys = unsafe listeners.map { UInt(bitPattern: $0) }
        boxes.withLock { boxes in for key in keys { boxes[key] = nil } }
        let remains = unsafe Remains(http: http, box: box, unixPaths: unixPaths)
        // Never at once: the listener may be closed by its own handler, which evhttp has called.
        if loop.isRunning { loop.post { remains.free() } } else { remains.free() }
    }

    /// - `@unchecked Sendable` because it moves to the loop and is used once.
    @safe
    private struct Remains: @unchecked Sendable {
        let http: OpaquePointer
        let box: Box
        let unixPaths: [String]

        func free() {
            // Frees the listeners too, and calls back about connections with requests that wait: the box lives until then.
            unsafe evhttp_free(http)
            withExtendedLifetime(box) {}
            for path in unixPaths { ListeningSocket.removeFile(at: path) }
        }
    }

    /// The callbacks' context, unretained: ``Remains`` keeps the box as long as the `evhttp`.
    var context: UnsafeMutableRawPointer { unsafe Unmanaged.passUnretained(box).toOpaque() }

    func add(_ listener: OpaquePointer) {
        unsafe listeners.append(listener)
        let (key, reference) = (UInt(bitPattern: listener), WeakBox(box))
        boxes.withLock { $0[key] = reference }
    }

    func setAccepting(_ isOn: Bool) {
        for index in unsafe listeners.indices {
            _ = unsafe isOn ? evconnlistener_enable(listeners[index]) : evconnlistener_disable(listeners[index])
        }
    }
}

/// - `@unchecked Sendable` because the box is looked into on its loop only.
private final class WeakBox: @unchecked Sendable {
    weak let box: Server.Box?

    init(_ box: Server.Box) { self.box = box }
}

/// The boxes of all evconnlisteners of the process, by address: their own context belongs to evhttp.
private let boxes = Locked<[UInt: WeakBox]>([:])

// MARK: Callbacks

private func requestArrived(_ raw: OpaquePointer?, _ context: UnsafeMutableRawPointer?) {
    guard let raw = unsafe raw, let context = unsafe context else { return }
    unsafe Unmanaged<Server.Box>.fromOpaque(context).takeUnretainedValue().listener?.received(raw)
}

private func connectionClosed(_ connection: OpaquePointer?, _ context: UnsafeMutableRawPointer?) {
    guard let connection = unsafe connection, let context = unsafe context else { return }
    unsafe Unmanaged<Server.Box>.fromOpaque(context).takeUnretainedValue().listener?.closed(connection)
}

private func acceptFailed(_ listener: OpaquePointer?, _ context: UnsafeMutableRawPointer?) {
    let key = UInt(bitPattern: listener)
    boxes.withLock { $0[key] }?.box?.listener?.pauseAccepting()
}

extension HTTPRequest {
    /// Copies what libevent has parsed.
    fileprivate init(_ raw: OpaquePointer) {
        var fields: [HTTPField] = []
        var next = unsafe evhttp_request_get_input_headers(raw)?.pointee.tqh_first
        while let field = unsafe next {
            if let name = unsafe field.pointee.key, let value = unsafe field.pointee.value {
                fields.append(unsafe HTTPField(String(cString: name), String(cString: value)))
            }
            unsafe next = field.pointee.next.tqe_next
        }
        let buffer = unsafe evhttp_request_get_input_buffer(raw)
        let count = unsafe evbuffer_get_length(buffer)
        var body = [UInt8](repeating: 0, count: count)
        if count > 0 {
            unsafe body.withUnsafeMutableBytes { _ = unsafe evbuffer_copyout(buffer, $0.baseAddress, count) }
        }
        var address: UnsafeMutablePointer<CChar>?
        var port: UInt16 = 0
        unsafe evhttp_connection_get_peer(evhttp_request_get_connection(raw), &address, &port)
        let remote = unsafe address.flatMap { unsafe IPAddress(String(cString: $0)) }
        self.init(
            method: Self.methodName(unsafe evhttp_request_get_command(raw)),
            target: unsafe evhttp_request_get_uri(raw).map { unsafe String(cString: $0) } ?? "",
            fields: fields, body: body, remote: remote.map { Endpoint($0, port) } ?? Endpoint(.anyV4, 0))
    }

    private static func methodName(_ command: evhttp_cmd_type) -> String {
        switch command {
        case EVHTTP_REQ_GET: "GET"
        case EVHTTP_REQ_POST: "POST"
        case EVHTTP_REQ_HEAD: "HEAD"
        case EVHTTP_REQ_PUT: "PUT"
        case EVHTTP_REQ_DELETE: "DELETE"
        case EVHTTP_REQ_OPTIONS: "OPTIONS"
        case EVHTTP_REQ_PATCH: "PATCH"
        default: ""
        }
    }
}
