import Addressing
import CCurl
import HTTPClient

/// Sole owner of one libcurl easy handle and of the buffers that it points into. Used for one request after another.
///
/// libcurl keeps pointers to this object (unretained), set in ``prepare(_:)``; whoever
/// adds the handle to a multi handle holds the object until it has removed it.
@safe
final class EasyHandle {
    let raw: UnsafeMutableRawPointer
    private var headerList: UnsafeMutablePointer<curl_slist>?
    private var connectList: UnsafeMutablePointer<curl_slist>?

    private(set) var head: [UInt8] = []
    private(set) var body: [UInt8] = []
    private var bodyLimit = 0
    private(set) var isBodyTooLarge = false
    /// The request that the handle is used for now.
    var exchange: HTTPExchange?

    private static let keepAliveIdle = 60

    init?() {
        guard let raw = unsafe curl_easy_init() else { return nil }
        unsafe self.raw = raw
    }

    deinit {
        unsafe curl_easy_cleanup(raw)
        unsafe curl_slist_free_all(headerList)
        unsafe curl_slist_free_all(connectList)
    }

    // MARK: Request

    /// What stays set in the handle from one request to the next: most requests of a group agree on it.
    private struct Profile: Equatable {
        let method: String
        let hasBody: Bool
        let connectTimeout: Duration
        let authorityFile: String?
        let certificateFile: String?
        let keyFile: String?
        let unixSocketPath: String?
        let address: IPAddress?

        init(_ request: HTTPClientRequest) {
            method = request.method
            hasBody = !request.body.isEmpty
            connectTimeout = request.connectTimeout
            authorityFile = request.authorityFile
            certificateFile = request.certificateFile
            keyFile = request.keyFile
            unixSocketPath = request.unixSocketPath
            address = request.address
        }
    }

    /// The profile that is set; `nil` for a handle that is new or half set.
    private var profile: Profile?

    /// Sets everything the request says; `false` when libcurl refuses a part of it.
    func prepare(_ request: HTTPClientRequest) -> Bool {
        bodyLimit = request.responseLimit
        isBodyTooLarge = false
        head.removeAll(keepingCapacity: true)
        let wanted = Profile(request)
        if profile != wanted {
            profile = nil
            unsafe curl_easy_reset(raw)
            guard setCallbacks(), setFixedOptions(), set(wanted) else { return false }
            profile = wanted
        }
        return set(CURLOPT_URL, request.url) && setBody(request) && setHeaders(request)
    }

    private func setCallbacks() -> Bool {
        let context = unsafe Unmanaged.passUnretained(self).toOpaque()
        return unsafe easy_set_pointer(raw, CURLOPT_PRIVATE, context) == CURLE_OK
            && easy_set_sink(raw, CURLOPT_WRITEFUNCTION, bodyArrived) == CURLE_OK
            && easy_set_pointer(raw, CURLOPT_WRITEDATA, context) == CURLE_OK
            && easy_set_sink(raw, CURLOPT_HEADERFUNCTION, headArrived) == CURLE_OK
            && easy_set_pointer(raw, CURLOPT_HEADERDATA, context) == CURLE_OK
    }

    private func setFixedOptions() -> Bool {
        set(CURLOPT_NOSIGNAL, 1) && set(CURLOPT_FOLLOWLOCATION, 0) && set(CURLOPT_TCP_NODELAY, 1)
            && set(CURLOPT_TCP_KEEPALIVE, 1)
            && set(CURLOPT_TCP_KEEPIDLE, Self.keepAliveIdle) && set(CURLOPT_MAXAGE_CONN, HTTPSession.idleSeconds)
            && set(CURLOPT_PROTOCOLS_STR, "http,https") && set(CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_1_1))
            // What the environment says about proxies is meant for interactive tools.
            && set(CURLOPT_PROXY, "")
    }

    private func set(_ profile: Profile) -> Bool {
        switch profile.method {
        case "GET" where !profile.hasBody: break
        case "HEAD": guard set(CURLOPT_NOBODY, 1) else { return false }
        case "POST": break
        default: guard set(CURLOPT_CUSTOMREQUEST, profile.method) else { return false }
        }
        if let file = profile.authorityFile { guard set(CURLOPT_CAINFO, file) else { return false } }
        if let file = profile.certificateFile { guard set(CURLOPT_SSLCERT, file) else { return false } }
        if let file = profile.keyFile { guard set(CURLOPT_SSLKEY, file) else { return false } }
        if let path = profile.unixSocketPath { guard set(CURLOPT_UNIX_SOCKET_PATH, path) else { return false } }
        if let address = profile.address { guard connect(to: address) else { return false } }
        return set(CURLOPT_CONNECTTIMEOUT_MS, profile.connectTimeout.milliseconds)
    }

    private func connect(to address: IPAddress) -> Bool {
        unsafe curl_slist_free_all(connectList)
        // Empty host and port: whatever the URL says is replaced by the address, the port stays.
        unsafe connectList = curl_slist_append(nil, "::\(address.uriHost):")
        guard unsafe connectList != nil else { return false }
        return unsafe easy_set_list(raw, CURLOPT_CONNECT_TO, connectList) == CURLE_OK
    }

    private func setBody(_ request: HTTPClientRequest) -> Bool {
        let bytes = request.body
        guard request.method == "POST" || !bytes.isEmpty else { return true }
        // The size is set before the body, since libcurl copies that many bytes of it.
        guard set(CURLOPT_POSTFIELDSIZE, bytes.count) else { return false }
        return unsafe bytes.withUnsafeBytes {
            // An empty array may have no address, and NULL would mean "ask a callback".
            unsafe easy_set_bytes(raw, CURLOPT_COPYPOSTFIELDS, $0.baseAddress ?? UnsafeRawPointer(raw)) == CURLE_OK
        }
    }

    private func setHeaders(_ request: HTTPClientRequest) -> Bool {
        unsafe curl_slist_free_all(headerList)
        unsafe headerList = nil
        var hasContentType = false
        for header in request.headers {
            var line = header.name
            // To libcurl "Name:" means "leave out", and "Name;" is how an empty value is written.
            line += header.value.isEmpty ? ";" : ": "
            line += header.value
            guard append(line) else { return false }
            if header.name.utf8.count == 12, header.name.lowercased() == "content-type" { hasContentType = true }
        }
        if request.method == "POST" || !request.body.isEmpty {
            // libcurl would claim a form, and for long bodies wait for a 100 that few servers send.
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

    /// What came of the request, once libcurl has finished it.
    func outcome(_ code: CURLcode) -> Result<HTTPClientResponse, HTTPClientError> {
        guard code == CURLE_OK else {
            let wasSent = microseconds(CURLINFO_PRETRANSFER_TIME_T) > .zero
            let detail = unsafe String(cString: curl_easy_strerror(code))
            return .failure(HTTPClientError(errorCode(code, wasSent: wasSent), detail: detail))
        }
        return .success(
            HTTPClientResponse(
                status: long(CURLINFO_RESPONSE_CODE), version: .http1, head: head, body: body,
                duration: microseconds(CURLINFO_TOTAL_TIME_T), isNewConnection: long(CURLINFO_NUM_CONNECTS) > 0))
    }

    private func errorCode(_ code: CURLcode, wasSent: Bool) -> HTTPClientError.Code {
        switch code {
        // The scheme of the URL before, an answer without a status line ("HTTP/0.9") after sending.
        case CURLE_UNSUPPORTED_PROTOCOL: wasSent ? .badResponse : .invalidRequest
        case CURLE_URL_MALFORMAT, CURLE_SSL_CERTPROBLEM, CURLE_SSL_CACERT_BADFILE,
            CURLE_BAD_FUNCTION_ARGUMENT:
            .invalidRequest
        case CURLE_COULDNT_RESOLVE_HOST: .resolve
        case CURLE_COULDNT_CONNECT: .connect
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

    /// Forgets the answer and who waited for it.
    func clear() {
        exchange = nil
        body = []
    }

    // MARK: Callbacks

    fileprivate func appendHead(_ line: UnsafeRawBufferPointer) -> Int {
        // A status line begins a new head: what came before was an interim response.
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

private func bodyArrived(
    _ bytes: UnsafeMutablePointer<CChar>?, _ size: Int, _ count: Int, _ context: UnsafeMutableRawPointer?
) -> Int {
    guard let context = unsafe context else { return 0 }
    let easy = unsafe Unmanaged<EasyHandle>.fromOpaque(context).takeUnretainedValue()
    return unsafe easy.appendBody(UnsafeRawBufferPointer(start: bytes, count: size * count))
}

extension Duration {
    /// At least 1, because 0 means "no limit" to libcurl.
    fileprivate var milliseconds: Int {
        let (seconds, attoseconds) = components
        let scaled = seconds.multipliedReportingOverflow(by: 1000)
        guard !scaled.overflow, scaled.partialValue < Int64(Int32.max) else { return Int(Int32.max) }
        return max(1, Int(scaled.partialValue) + Int(attoseconds / 1_000_000_000_000_000))
    }
}
