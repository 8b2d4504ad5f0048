import Addressing
import CCurl
package import HTTPClient
package import Reactor
import Timekeeping

/// The HTTP/1.1 connections of one request group. ``HTTP1Transport`` is the sole owner of one libcurl multi handle.
///
/// libcurl calls back only while ``HTTP1Transport`` calls libcurl, on the loop's thread. Completions of requests never
/// run inside a call of libcurl. libcurl's own resolver looks up host names.
///
/// - The type is `@unchecked Sendable`, because only the loop's thread uses it.
@safe
package final class HTTP1Transport: HTTPTransport, @unchecked Sendable {
    private let loop: EventLoop
    private let raw: UnsafeMutableRawPointer
    private let limits: HTTPSession.Limits
    private var timer: LoopTimer?
    private var watches: FileWatches?
    /// The easy handles of active requests, retained while libcurl uses them.
    private var active: [ObjectIdentifier: EasyHandle] = [:]
    private var idle: [EasyHandle] = []
    /// Whether new requests will start at the end of the loop's iteration.
    private var isStartDue = false

    /// The maximum number of unused easy handles that are kept.
    private static let idleLimit = 256

    /// Initialises libcurl once per process.
    private static let isLibraryReady: Bool = curl_global_init(Int(CURL_GLOBAL_DEFAULT)) == CURLE_OK

    package init(on loop: EventLoop, limits: HTTPSession.Limits, names: HostNames) throws(HTTPClientError) {
        precondition(Self.isLibraryReady, "libcurl could not be initialised")
        self.loop = loop
        self.limits = limits
        guard let raw = unsafe curl_multi_init() else { throw HTTPClientError(.failed, detail: "out of memory") }
        unsafe self.raw = raw
        unsafe multi_set_long(raw, CURLMOPT_MAX_HOST_CONNECTIONS, limits.connectionsPerHost)
        unsafe multi_set_long(raw, CURLMOPT_MAX_TOTAL_CONNECTIONS, limits.connections)
        unsafe multi_set_long(raw, CURLMOPT_MAXCONNECTS, limits.connections)
        do throws(SystemError) {
            // The timer has the loop's first priority, so that requests are sent before other work adds more.
            timer = try LoopTimer(on: loop, turn: .first) { [weak self] in self?.advance(CURL_SOCKET_BAD, 0) }
        } catch {
            throw HTTPClientError(.failed, detail: error.description)
        }
        watches = FileWatches(on: loop, turn: .first, until: timer) { [weak self] descriptor, ready in
            self?.advance(descriptor, ready == .read ? CURL_CSELECT_IN : CURL_CSELECT_OUT)
        }
        // The pointer is unretained, because `deinit` removes both callbacks before the transport is freed.
        let context = unsafe Unmanaged.passUnretained(self).toOpaque()
        unsafe multi_set_socket_callback(raw, socketCallback, context)
        unsafe multi_set_timer_callback(raw, timerCallback, context)
    }

    deinit {
        unsafe multi_set_socket_callback(raw, nil, nil)
        unsafe multi_set_timer_callback(raw, nil, nil)
        for easy in active.values { unsafe curl_multi_remove_handle(raw, easy.raw) }
        // The watches are removed before libcurl closes the sockets, because a watch must end before its descriptor.
        watches = nil
        unsafe curl_multi_cleanup(raw)
    }

    // MARK: Requests

    package func send(_ exchange: HTTPExchange) throws(HTTPClientError) -> Bool {
        guard let easy = idle.popLast() ?? EasyHandle(limits) else {
            throw HTTPClientError(.failed, detail: "out of memory")
        }
        guard easy.prepare(exchange.request), unsafe curl_multi_add_handle(raw, easy.raw) == CURLM_OK else {
            throw HTTPClientError(.invalidRequest, detail: "refused by libcurl")
        }
        easy.exchange = exchange
        exchange.connection = easy
        active[ObjectIdentifier(easy)] = easy
        return true
    }

    package func takeBack(_ exchange: HTTPExchange) {
        if let easy = exchange.connection as? EasyHandle { retire(easy) }
    }

    package func delay(of exchange: HTTPExchange) -> HTTPClientError? { (exchange.connection as? EasyHandle)?.delay }

    /// Does nothing, because for HTTP/1.1 an early connection would gain too little.
    package func keepWarm(_ request: HTTPClientRequest) {}

    package func close() -> [HTTPExchange] {
        let easies = active.values
        let exchanges = easies.compactMap(\.exchange)
        for easy in easies { retire(easy) }
        return exchanges
    }

    private func retire(_ easy: EasyHandle) {
        guard active.removeValue(forKey: ObjectIdentifier(easy)) != nil else { return }
        unsafe curl_multi_remove_handle(raw, easy.raw)
        easy.clear()
        if idle.count < Self.idleLimit { idle.append(easy) }
    }

    // MARK: Driving libcurl

    /// Starts all new requests of the loop's iteration together, at its end.
    private func startSoon() {
        guard !isStartDue else { return }
        isStartDue = true
        loop.post { [weak self] in
            self?.isStartDue = false
            self?.advance(CURL_SOCKET_BAD, 0)
        }
    }

    private func advance(_ descriptor: Int32, _ events: Int32) {
        var running: Int32 = 0
        unsafe curl_multi_socket_action(raw, descriptor, events, &running)
        finishCompleted()
    }

    private func finishCompleted() {
        var left: Int32 = 0
        while let message = unsafe curl_multi_info_read(raw, &left) {
            guard unsafe message.pointee.msg == CURLMSG_DONE, let handle = unsafe message.pointee.easy_handle else {
                continue
            }
            // The values of the message are read first, because removing the handle frees the message.
            let code = unsafe multi_message_result(message)
            var context: UnsafeMutableRawPointer?
            unsafe easy_private(handle, &context)
            guard let context = unsafe context else { continue }
            let easy = unsafe Unmanaged<EasyHandle>.fromOpaque(context).takeUnretainedValue()
            let outcome = easy.outcome(code)
            let exchange = easy.exchange
            retire(easy)
            exchange?.finish(outcome)
        }
    }

    // MARK: Callbacks

    fileprivate func socketChanged(_ descriptor: Int32, _ what: Int32) {
        // libcurl asks for neither reading nor writing when it no longer needs a socket. The watch on the socket is
        // kept, because libcurl may soon use the socket again.
        let reads: FileWatch.Interest = what & CURL_POLL_IN != 0 ? .read : FileWatch.Interest(rawValue: 0)
        let writes: FileWatch.Interest = what & CURL_POLL_OUT != 0 ? .write : FileWatch.Interest(rawValue: 0)
        watches?.watch(descriptor, for: reads.union(writes))
    }

    fileprivate func timerChanged(_ milliseconds: Int) {
        if milliseconds <= 0 { timer?.disarm() }
        if milliseconds == 0 {
            startSoon()
        } else if milliseconds > 0 {
            timer?.arm(at: loop.now + .milliseconds(milliseconds))
        }
    }
}

private func socketCallback(
    _ easy: UnsafeMutableRawPointer?, _ descriptor: Int32, _ what: Int32, _ context: UnsafeMutableRawPointer?,
    _ socketContext: UnsafeMutableRawPointer?
) -> Int32 {
    guard let context = unsafe context else { return 0 }
    unsafe Unmanaged<HTTP1Transport>.fromOpaque(context).takeUnretainedValue().socketChanged(descriptor, what)
    if what != CURL_POLL_REMOVE, let easy = unsafe easy {
        var owner: UnsafeMutableRawPointer?
        unsafe easy_private(easy, &owner)
        guard let owner = unsafe owner else { return 0 }
        unsafe Unmanaged<EasyHandle>.fromOpaque(owner).takeUnretainedValue().socketChanged(
            reads: what & CURL_POLL_IN != 0)
    }
    return 0
}

private func timerCallback(
    _ multi: UnsafeMutableRawPointer?, _ milliseconds: Int, _ context: UnsafeMutableRawPointer?
) -> Int32 {
    guard let context = unsafe context else { return 0 }
    unsafe Unmanaged<HTTP1Transport>.fromOpaque(context).takeUnretainedValue().timerChanged(milliseconds)
    return 0
}
