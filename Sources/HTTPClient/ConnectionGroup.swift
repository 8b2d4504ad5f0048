import CCurl
import Glibc
import Reactor
import Timekeeping

/// Sole owner of one libcurl multi handle: the HTTP/1.1 connections of one group, driven by the loop.
///
/// libcurl calls back from within the calls made here only, all on the loop's thread; what waits for answers is never
/// called from within libcurl.
@safe
final class ConnectionGroup {
    private let loop: EventLoop
    private let raw: UnsafeMutableRawPointer
    private var timer: LoopTimer?
    private var watches: FileWatches?
    /// Requests under way, which keeps their handles alive while libcurl has them.
    private var active: [ObjectIdentifier: EasyHandle] = [:]
    private var idle: [EasyHandle] = []

    /// Handles kept for later requests.
    private static let idleLimit = 256

    init(on loop: EventLoop, limits: HTTPSession.Limits) throws(SystemError) {
        self.loop = loop
        guard let raw = unsafe curl_multi_init() else { throw SystemError(call: "curl_multi_init", code: ENOMEM) }
        unsafe self.raw = raw
        unsafe multi_set_long(raw, CURLMOPT_MAX_HOST_CONNECTIONS, limits.connectionsPerHost)
        unsafe multi_set_long(raw, CURLMOPT_MAX_TOTAL_CONNECTIONS, limits.connections)
        unsafe multi_set_long(raw, CURLMOPT_MAXCONNECTS, limits.connections)
        // libcurl begins to send when its timer comes: before more to send is read.
        timer = try LoopTimer(on: loop, turn: .first) { [weak self] in self?.advance(CURL_SOCKET_BAD, 0) }
        watches = FileWatches(on: loop, turn: .first) { [weak self] descriptor, ready in
            self?.advance(descriptor, ready == .read ? CURL_CSELECT_IN : CURL_CSELECT_OUT)
        }
        // Unretained: deinit takes both callbacks back before the object goes.
        let context = unsafe Unmanaged.passUnretained(self).toOpaque()
        unsafe multi_set_socket_callback(raw, socketCallback, context)
        unsafe multi_set_timer_callback(raw, timerCallback, context)
    }

    deinit {
        unsafe multi_set_socket_callback(raw, nil, nil)
        unsafe multi_set_timer_callback(raw, nil, nil)
        for easy in active.values { unsafe curl_multi_remove_handle(raw, easy.raw) }
        // Before the sockets are closed below, since a watch must not outlive its descriptor.
        watches = nil
        unsafe curl_multi_cleanup(raw)
    }

    // MARK: Requests

    var activeCount: Int { active.count }

    /// Starts the request; `nil` when it cannot be started, after which the completion is not called.
    func start(
        _ request: HTTPClientRequest, _ completion: @escaping (Result<HTTPClientResponse, HTTPClientError>) -> Void
    ) -> EasyHandle? {
        guard let easy = idle.popLast() ?? EasyHandle() else { return nil }
        guard easy.prepare(request) else { return nil }
        easy.completion = completion
        active[ObjectIdentifier(easy)] = easy
        guard unsafe curl_multi_add_handle(raw, easy.raw) == CURLM_OK else {
            active[ObjectIdentifier(easy)] = nil
            return nil
        }
        return easy
    }

    /// Takes back a request that is under way, without calling its completion.
    func cancel(_ easy: EasyHandle) {
        guard active.removeValue(forKey: ObjectIdentifier(easy)) != nil else { return }
        unsafe curl_multi_remove_handle(raw, easy.raw)
        retire(easy)
    }

    /// Ends all requests; their completions are called with the error.
    func failAll(_ error: HTTPClientError) {
        for easy in active.values {
            let completion = easy.completion
            cancel(easy)
            completion?(.failure(error))
        }
    }

    private func retire(_ easy: EasyHandle) {
        easy.clear()
        if idle.count < Self.idleLimit { idle.append(easy) }
    }

    // MARK: Driving libcurl

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
            // The message is gone once its handle is removed.
            let code = unsafe multi_message_result(message)
            var context: UnsafeMutableRawPointer?
            unsafe easy_private(handle, &context)
            guard let context = unsafe context else { continue }
            let easy = unsafe Unmanaged<EasyHandle>.fromOpaque(context).takeUnretainedValue()
            finish(easy, code)
        }
    }

    private func finish(_ easy: EasyHandle, _ code: CURLcode) {
        guard active.removeValue(forKey: ObjectIdentifier(easy)) != nil else { return }
        let outcome = easy.outcome(code)
        let completion = easy.completion
        unsafe curl_multi_remove_handle(raw, easy.raw)
        retire(easy)
        completion?(outcome)
    }

    // MARK: Callbacks

    fileprivate func socketChanged(_ descriptor: Int32, _ what: Int32) {
        // Neither stays set when libcurl has done with the socket.
        var interest: FileWatch.Interest = []
        if what & CURL_POLL_IN != 0 { interest.insert(.read) }
        if what & CURL_POLL_OUT != 0 { interest.insert(.write) }
        watches?.watch(descriptor, for: interest)
    }

    fileprivate func timerChanged(_ milliseconds: Int) {
        if milliseconds < 0 {
            timer?.disarm()
        } else {
            timer?.arm(at: loop.now + .milliseconds(milliseconds))
        }
    }
}

private func socketCallback(
    _ easy: UnsafeMutableRawPointer?, _ descriptor: Int32, _ what: Int32, _ context: UnsafeMutableRawPointer?,
    _ socketContext: UnsafeMutableRawPointer?
) -> Int32 {
    guard let context = unsafe context else { return 0 }
    unsafe Unmanaged<ConnectionGroup>.fromOpaque(context).takeUnretainedValue().socketChanged(descriptor, what)
    return 0
}

private func timerCallback(
    _ multi: UnsafeMutableRawPointer?, _ milliseconds: Int, _ context: UnsafeMutableRawPointer?
) -> Int32 {
    guard let context = unsafe context else { return 0 }
    unsafe Unmanaged<ConnectionGroup>.fromOpaque(context).takeUnretainedValue().timerChanged(milliseconds)
    return 0
}
