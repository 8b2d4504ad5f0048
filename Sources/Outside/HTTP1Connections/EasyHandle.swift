import HTTPSemantics
import Addressing
import CCurl
import Crypto
import Glibc
import HTTPClient
import Reactor

/// The sole owner of one libcurl easy handle, and of the buffers to which the handle points. An easy handle, libcurl's
/// object for a transfer, serves one request after another.
///
/// ``prepare(_:)`` gives libcurl unretained pointers to this object. The owner of the multi handle must retain the easy
/// handle until it is removed from the multi handle.
@safe
final class EasyHandle {
    let raw: UnsafeMutableRawPointer
    /// The URL in libcurl's parsed form, kept for requests with the same URL.
    private let url: OpaquePointer
    private var headerList: UnsafeMutablePointer<curl_slist>?
    private var connectList: UnsafeMutablePointer<curl_slist>?

    private(set) var head: [UInt8] = []
    private(set) var body: [UInt8] = []
    private var bodyLimit = 0
    private(set) var isBodyTooLarge = false
    /// Whether libcurl has begun to send the request. A request that libcurl has begun to send must not be sent again.
    private var hasLeft = false
    /// Whether libcurl tried to send the request a second time, which is forbidden.
    private var wasToRepeat = false
    /// Whether libcurl waits for bytes of the server, so that the connection is established.
    private var isReading = false
    /// The request that the handle serves at present.
    var exchange: HTTPExchange?

    /// The source address of connections; `nil` to let the kernel choose.
    private let source: IPAddress?
    /// How many seconds a connection without requests is kept.
    private let idleSeconds: Int

    private static let keepAliveIdle = 60

    init?(_ limits: HTTPSession.Limits) {
        source = limits.source
        idleSeconds = limits.idleSeconds
        guard let url = unsafe curl_url() else { return nil }
        guard let raw = unsafe curl_easy_init() else {
            unsafe curl_url_cleanup(url)
            return nil
        }
        unsafe self.raw = raw
        unsafe self.url = url
    }

    deinit {
        unsafe curl_easy_cleanup(raw)
        unsafe curl_url_cleanup(url)
        unsafe curl_slist_free_all(headerList)
        unsafe curl_slist_free_all(connectList)
    }

    // MARK: Request

    /// The request whose options are set in the handle, without its body; `nil` for a new or partly set handle. Only
    /// options that have changed since the last request are set, because most requests of a group are nearly equal.
    private var last: HTTPClientRequest?
    private var hadBody = false
    private var connectMilliseconds = 0

    /// Sets libcurl's options for the request; returns `false` if libcurl refuses one.
    func prepare(_ request: HTTPClientRequest) -> Bool {
        bodyLimit = request.responseLimit
        isBodyTooLarge = false
        hasLeft = false
        wasToRepeat = false
        isReading = false
        head.removeAll(keepingCapacity: true)
        var last = last.take()
        let hasBody = !request.body.isEmpty
        if hadBody == hasBody, last?.method == request.method, last?.hasRoute(of: request) == true {
            // Options that are not set here are already set, because the previous request had the same values.
        } else {
            last = nil
            unsafe curl_easy_reset(raw)
            connectMilliseconds = 0
            guard setCallbacks(), setFixedOptions(), setSource(), set(request.method, hasBody: hasBody),
                set(request.route)
            else {
                return false
            }
        }
        guard last?.url == request.url || setURL(request.url), setPatience(request), setBody(request),
            last?.headers == request.headers || setHeaders(request)
        else { return false }
        if last == nil {
            last = request
            last?.body = []
        }
        last?.url = request.url
        last?.headers = request.headers
        self.last = last
        hadBody = hasBody
        return true
    }

    private func setCallbacks() -> Bool {
        let context = unsafe Unmanaged.passUnretained(self).toOpaque()
        return unsafe easy_set_pointer(raw, CURLOPT_PRIVATE, context) == CURLE_OK
            && easy_set_url(raw, url) == CURLE_OK
            && easy_set_sink(raw, CURLOPT_WRITEFUNCTION, bodyArrived) == CURLE_OK
            && easy_set_pointer(raw, CURLOPT_WRITEDATA, context) == CURLE_OK
            && easy_set_sink(raw, CURLOPT_HEADERFUNCTION, headArrived) == CURLE_OK
            && easy_set_pointer(raw, CURLOPT_HEADERDATA, context) == CURLE_OK
            && easy_set_gate(raw, requestLeaves) == CURLE_OK
            && easy_set_pointer(raw, CURLOPT_PREREQDATA, context) == CURLE_OK
    }

    private func setFixedOptions() -> Bool {
        set(CURLOPT_NOSIGNAL, 1) && set(CURLOPT_FOLLOWLOCATION, 0) && set(CURLOPT_TCP_NODELAY, 1)
            && set(CURLOPT_TCP_KEEPALIVE, 1)
            && set(CURLOPT_TCP_KEEPIDLE, Self.keepAliveIdle) && set(CURLOPT_MAXAGE_CONN, idleSeconds)
            && set(CURLOPT_PROTOCOLS_STR, "http,https") && set(CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_1_1))
    }

    private func set(_ proxy: HTTPProxy?) -> Bool {
        // Only the daemon's settings decide about proxies, and not environment variables.
        guard let proxy else { return set(CURLOPT_NOPROXY, "*") }
        guard
            set(CURLOPT_NOPROXY, "") && set(CURLOPT_PROXY, proxy.url) && set(CURLOPT_HTTPPROXYTUNNEL, 1)
                // CURLHEADER_SEPARATE keeps the request's own header fields, such as credentials, from the proxy.
                && set(CURLOPT_HEADEROPT, Int(CURLHEADER_SEPARATE))
        else { return false }
        guard let login = proxy.login else { return true }
        return set(CURLOPT_PROXYUSERNAME, login.user) && set(CURLOPT_PROXYPASSWORD, login.password)
            && set(CURLOPT_PROXYAUTH, Int(auth_basic()))
    }

    private func setSource() -> Bool {
        guard let source else { return true }
        return set(CURLOPT_INTERFACE, "host!\(source)")
            && set(CURLOPT_IPRESOLVE, source.isV4 ? Int(CURL_IPRESOLVE_V4) : Int(CURL_IPRESOLVE_V6))
    }

    private func set(_ method: String, hasBody: Bool) -> Bool {
        switch method {
        case "GET" where !hasBody: true
        case "HEAD": set(CURLOPT_NOBODY, 1)
        case "POST": true
        default: set(CURLOPT_CUSTOMREQUEST, method)
        }
    }

    private func set(_ route: HTTPRoute) -> Bool {
        if let authority = route.authority {
            // Unless CURLOPT_CAPATH is NULL, libcurl also trusts the authorities in the system's folder.
            guard unsafe easy_set_string(raw, CURLOPT_CAPATH, nil) == CURLE_OK,
                set(authority, file: CURLOPT_CAINFO, bytes: CURLOPT_CAINFO_BLOB)
            else { return false }
        }
        guard set(route.certificate, file: CURLOPT_SSLCERT, bytes: CURLOPT_SSLCERT_BLOB),
            set(route.key, file: CURLOPT_SSLKEY, bytes: CURLOPT_SSLKEY_BLOB)
        else { return false }
        if let path = route.unixSocketPath { guard set(CURLOPT_UNIX_SOCKET_PATH, path) else { return false } }
        guard set(route.proxy) else { return false }
        if let address = route.address { guard connect(to: address) else { return false } }
        return true
    }

    private func set(_ pem: PEM?, file: CURLoption, bytes: CURLoption) -> Bool {
        switch pem {
        case nil: true
        case .file(let path): set(file, path)
        case .bytes(let content):
            unsafe content.withUnsafeBytes {
                unsafe easy_set_blob(raw, bytes, $0.baseAddress, $0.count) == CURLE_OK
            }
        }
    }

    private func setURL(_ text: String) -> Bool {
        // The URL object is emptied first. Otherwise, libcurl would resolve a URL without a server against the previous
        // URL.
        unsafe curl_url_set(url, CURLUPART_URL, nil, 0) == CURLUE_OK
            && curl_url_set(url, CURLUPART_URL, text, 0) == CURLUE_OK
    }

    /// Sets the time limit for connecting, at most the time limit of the request.
    private func setPatience(_ request: HTTPClientRequest) -> Bool {
        let wanted = request.connectTimeout < request.timeout ? request.connectTimeout.milliseconds : 0
        guard wanted != connectMilliseconds else { return true }
        connectMilliseconds = wanted
        return set(CURLOPT_CONNECTTIMEOUT_MS, wanted)
    }

    private func connect(to address: IPAddress) -> Bool {
        unsafe curl_slist_free_all(connectList)
        // An entry with an empty host and an empty port applies to any host: libcurl connects to the entry's address,
        // at the port of the URL.
        unsafe connectList = curl_slist_append(nil, "::\(address.uriHost):")
        guard unsafe connectList != nil else { return false }
        return unsafe easy_set_list(raw, CURLOPT_CONNECT_TO, connectList) == CURLE_OK
    }

    private func setBody(_ request: HTTPClientRequest) -> Bool {
        let bytes = request.body
        guard request.method == "POST" || !bytes.isEmpty else { return true }
        // The body's size is set before the body, because libcurl copies as many bytes as the size says.
        guard set(CURLOPT_POSTFIELDSIZE, bytes.count) else { return false }
        return unsafe bytes.withUnsafeBytes {
            // With NULL for an empty array, libcurl would request the body from a callback.
            unsafe easy_set_bytes(raw, CURLOPT_COPYPOSTFIELDS, $0.baseAddress ?? UnsafeRawPointer(raw)) == CURLE_OK
        }
    }

    private func setHeaders(_ request: HTTPClientRequest) -> Bool {
        unsafe curl_slist_free_all(headerList)
        unsafe headerList = nil
        var hasContentType = false
        for header in request.headers {
            var line = header.name
            // In libcurl's list, "Name:" means "leave the field out", and "Name;" means an empty value.
            line += header.value.isEmpty ? ";" : ": "
            line += header.value
            guard append(line) else { return false }
            if header.name.utf8.count == 12, header.name.lowercased() == "content-type" { hasContentType = true }
        }
        if request.method == "POST" || !request.body.isEmpty {
            // Without "Content-Type:", libcurl would declare that the body is a form. Without "Expect:", libcurl would
            // wait for a 100 before a long body, although few servers send one.
            if !hasContentType { guard append("Content-Type:") else { return false } }
            guard append("Expect:") else { return false }
        }
        return unsafe easy_set_list(raw, CURLOPT_HTTPHEADER, headerList) == CURLE_OK
    }

    private func append(_ line: String) -> Bool {
        guard let list = unsafe curl_slist_append(headerList, line) else { return false }
        unsafe headerList = list
        return true
    }

    private func set(_ option: CURLoption, _ value: Int) -> Bool {
        unsafe easy_set_long(raw, option, value) == CURLE_OK
    }

    private func set(_ option: CURLoption, _ value: String) -> Bool {
        unsafe easy_set_string(raw, option, value) == CURLE_OK
    }

    // MARK: Response

    /// The result of a finished request.
    func outcome(_ code: CURLcode) -> Result<HTTPClientResponse, HTTPClientError> {
        guard code == CURLE_OK else {
            if wasToRepeat {
                return .failure(HTTPClientError(.reset, detail: "the kept connection was closed without an answer"))
            }
            if let error = proxyError(code) { return .failure(error) }
            if code == CURLE_WRITE_ERROR, isBodyTooLarge, exchange?.request.dropsLongBody == true {
                body = []
                return .success(response)
            }
            let wasSent = microseconds(CURLINFO_PRETRANSFER_TIME_T) > .zero
            let detail = unsafe String(cString: curl_easy_strerror(code))
            return .failure(HTTPClientError(errorCode(code, wasSent: wasSent), detail: detail))
        }
        return .success(response)
    }

    private var response: HTTPClientResponse {
        HTTPClientResponse(
            status: long(CURLINFO_RESPONSE_CODE), version: .http1, head: head, body: body,
            duration: microseconds(CURLINFO_TOTAL_TIME_T), isNewConnection: long(CURLINFO_NUM_CONNECTS) > 0)
    }

    /// The error of a request that failed because of the proxy; otherwise `nil`.
    private func proxyError(_ code: CURLcode) -> HTTPClientError? {
        guard let proxy = exchange?.request.route.proxy else { return nil }
        let detail = unsafe String(cString: curl_easy_strerror(code))
        if code == CURLE_COULDNT_RESOLVE_PROXY { return proxy.error(.unresolved(detail)) }
        let status = long(CURLINFO_HTTP_CONNECTCODE)
        if status != 0, !(200...299).contains(status) { return proxy.error(.tunnel(.refused(status: status))) }
        guard microseconds(CURLINFO_PRETRANSFER_TIME_T) == .zero else { return nil }
        // A write error before the request is sent means that the proxy's answer is too long.
        if code == CURLE_WRITE_ERROR { return proxy.error(.tunnel(.tooLong)) }
        guard status == 0 else { return nil }
        switch code {
        case CURLE_COULDNT_CONNECT:
            let error = SystemError(call: "connect", code: Int32(long(CURLINFO_OS_ERRNO)))
            return proxy.error(.tunnel(.unreachable(error)))
        case CURLE_OPERATION_TIMEDOUT: return delay
        case CURLE_RECV_ERROR, CURLE_SEND_ERROR, CURLE_GOT_NOTHING, CURLE_WEIRD_SERVER_REPLY, CURLE_PROXY,
            CURLE_UNSUPPORTED_PROTOCOL:
            return proxy.error(.tunnel(head.isEmpty ? .closed : .garbled))
        default: return nil
        }
    }

    /// The error of a request whose time limit passed while it waited for the proxy; `nil` for another error.
    var delay: HTTPClientError? {
        guard let proxy = exchange?.request.route.proxy, long(CURLINFO_HTTP_CONNECTCODE) == 0,
            microseconds(CURLINFO_PRETRANSFER_TIME_T) == .zero
        else { return nil }
        if microseconds(CURLINFO_NAMELOOKUP_TIME_T) == .zero { return proxy.error(.unresolved("no answer in time")) }
        if isReading { return proxy.error(.tunnel(.silent)) }
        return proxy.error(.tunnel(.unreachable(SystemError(call: "connect", code: ETIMEDOUT))))
    }

    private func errorCode(_ code: CURLcode, wasSent: Bool) -> HTTPClientError.Code {
        switch code {
        // If no byte was sent, libcurl does not support the URL's scheme. If bytes were sent, the server answered
        // without a status line ("HTTP/0.9").
        case CURLE_UNSUPPORTED_PROTOCOL: wasSent ? .badResponse : .invalidRequest
        case CURLE_URL_MALFORMAT, CURLE_SSL_CERTPROBLEM, CURLE_SSL_CACERT_BADFILE,
            CURLE_BAD_FUNCTION_ARGUMENT:
            .invalidRequest
        case CURLE_COULDNT_RESOLVE_HOST: .resolve
        case CURLE_COULDNT_CONNECT, CURLE_INTERFACE_FAILED: .connect
        case CURLE_SSL_CONNECT_ERROR, CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CIPHER, CURLE_SSL_ISSUER_ERROR: .tls
        case CURLE_OPERATION_TIMEDOUT: .timeout
        case CURLE_RECV_ERROR, CURLE_SEND_ERROR, CURLE_GOT_NOTHING, CURLE_PARTIAL_FILE:
            .reset
        case CURLE_WEIRD_SERVER_REPLY: .badResponse
        case CURLE_WRITE_ERROR: isBodyTooLarge ? .bodyTooLarge : .badResponse
        default: .failed
        }
    }

    private func long(_ info: CURLINFO) -> Int {
        var value = 0
        unsafe easy_long(raw, info, &value)
        return value
    }

    private func microseconds(_ info: CURLINFO) -> Duration {
        var value: curl_off_t = 0
        unsafe easy_microseconds(raw, info, &value)
        return .microseconds(value)
    }

    /// Releases the response and its receiver.
    func clear() {
        exchange = nil
        body = []
    }

    // MARK: Callbacks

    /// Allows libcurl to send the request only once. By default, libcurl would send a request up to five more times if
    /// a reused connection ends without an answer. The server may have carried out the first request already (RFC 9110
    /// section 9.2.2).
    fileprivate func mayLeave() -> Bool {
        if hasLeft { wasToRepeat = true }
        hasLeft = true
        return !wasToRepeat
    }

    /// Records whether libcurl is now waiting for bytes.
    func socketChanged(reads: Bool) { isReading = reads }

    fileprivate func appendHead(_ line: UnsafeRawBufferPointer) -> Int {
        // A status line begins the head of a new response, after the head of an interim response.
        if unsafe line.starts(with: statusLineStart) { head.removeAll(keepingCapacity: true) }
        guard head.count + line.count <= HTTPClientResponse.headLimit else { return 0 }
        unsafe head.append(contentsOf: line)
        return line.count
    }

    fileprivate func appendBody(_ bytes: UnsafeRawBufferPointer) -> Int {
        guard body.count + bytes.count <= bodyLimit else {
            isBodyTooLarge = true
            return 0
        }
        unsafe body.append(contentsOf: bytes)
        return bytes.count
    }
}

private let statusLineStart = Array("HTTP/".utf8)

private func headArrived(
    _ bytes: UnsafeMutablePointer<CChar>?, _ size: Int, _ count: Int, _ context: UnsafeMutableRawPointer?
) -> Int {
    guard let context = unsafe context else { return 0 }
    let easy = unsafe Unmanaged<EasyHandle>.fromOpaque(context).takeUnretainedValue()
    return unsafe easy.appendHead(UnsafeRawBufferPointer(start: bytes, count: size * count))
}

private func requestLeaves(
    _ context: UnsafeMutableRawPointer?, _ remote: UnsafeMutablePointer<CChar>?,
    _ local: UnsafeMutablePointer<CChar>?, _ remotePort: Int32, _ localPort: Int32
) -> Int32 {
    guard let context = unsafe context else { return CURL_PREREQFUNC_ABORT }
    let easy = unsafe Unmanaged<EasyHandle>.fromOpaque(context).takeUnretainedValue()
    return easy.mayLeave() ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT
}

private func bodyArrived(
    _ bytes: UnsafeMutablePointer<CChar>?, _ size: Int, _ count: Int, _ context: UnsafeMutableRawPointer?
) -> Int {
    guard let context = unsafe context else { return 0 }
    let easy = unsafe Unmanaged<EasyHandle>.fromOpaque(context).takeUnretainedValue()
    return unsafe easy.appendBody(UnsafeRawBufferPointer(start: bytes, count: size * count))
}

extension Duration {
    /// The duration in milliseconds; at least 1, because 0 means "no limit" in libcurl.
    fileprivate var milliseconds: Int {
        let (seconds, attoseconds) = components
        let scaled = seconds.multipliedReportingOverflow(by: 1000)
        guard !scaled.overflow, scaled.partialValue < Int64(Int32.max) else { return Int(Int32.max) }
        return max(1, Int(scaled.partialValue) + Int(attoseconds / 1_000_000_000_000_000))
    }
}
