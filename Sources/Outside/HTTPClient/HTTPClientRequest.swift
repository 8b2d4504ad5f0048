package import Addressing
package import Crypto
package import HTTPSemantics

/// How a request reaches the server, and by which certificate the client authenticates itself.
package struct HTTPRoute: Hashable, Sendable {
    package enum Version: Sendable, Hashable {
        case http1
        /// HTTP/2 over TLS if the server supports it, and otherwise HTTP/1.1. Requests without TLS always use HTTP/1.1.
        case http2
    }

    package var version = Version.http2
    /// The certificate authorities that the client trusts; `nil` for the system's.
    package var authority: PEM?
    /// The client certificate and its private key.
    package var certificate: PEM?
    package var key: PEM?
    /// The path of a Unix-domain socket that replaces the URL's host as the destination, if any.
    package var unixSocketPath: String?
    /// The address to which the request is sent, instead of the addresses of the URL's host. TLS still uses the URL's
    /// host as the server name, which the certificate must cover.
    package var address: IPAddress?
    /// The HTTP proxy through which the server is reached.
    package var proxy: HTTPProxy?
    /// The name of the request's group; only requests of one group share connections and limits.
    package var group = ""

    package init() {}
}

extension HTTPRoute {
    /// The file with the certificate authorities, read for each connection.
    package var authorityFile: String? {
        get { authority?.path }
        set { authority = newValue.map { .file($0) } }
    }

    package var certificateFile: String? {
        get { certificate?.path }
        set { certificate = newValue.map { .file($0) } }
    }

    package var keyFile: String? {
        get { key?.path }
        set { key = newValue.map { .file($0) } }
    }
}

extension PEM {
    fileprivate var path: String? {
        switch self {
        case .file(let path): path
        case .bytes: nil
        }
    }
}

/// An HTTP request of the client, with its options.
package struct HTTPClientRequest: Sendable {
    package var method: String
    /// The absolute URL, beginning with `http` or `https`, in percent encoding.
    package var url: String
    package var headers: [HTTPField]
    package var body: [UInt8]
    /// The time limit from the request's start to the last byte of the response.
    package var timeout: Duration = .seconds(10)
    package var connectTimeout = HTTPClientRequest.standardConnectTimeout
    package static let standardConnectTimeout: Duration = .seconds(5)
    /// The maximum size of the response body in bytes, above which the request fails.
    package var responseLimit = 1 << 20
    /// Whether a response with a longer body is accepted, but without its body. The client reads no more of the body.
    package var dropsLongBody = false
    package var route: HTTPRoute {
        get { shared.route }
        set { shared = SharedRoute(newValue) }
    }
    private var shared = SharedRoute.standard

    /// Stores a request's route in an object that all copies of the request share. Two requests with the same object
    /// have equal routes, so their routes need not be compared.
    private final class SharedRoute: Sendable {
        let route: HTTPRoute

        static let standard = SharedRoute(HTTPRoute())

        init(_ route: HTTPRoute) { self.route = route }
    }

    package init(method: String = "GET", url: String, headers: [HTTPField] = [], body: [UInt8] = []) {
        self.method = method
        self.url = url
        self.headers = headers
        self.body = body
    }

    package func hasRoute(of other: HTTPClientRequest) -> Bool {
        shared === other.shared || shared.route == other.shared.route
    }

    func isOf(_ group: String) -> Bool { shared.route.group == group }

    /// Whether the client may try HTTP/2.
    package var mayUseHTTP2: Bool {
        shared.route.version == .http2 && shared.route.unixSocketPath == nil && url.utf8.starts(with: "https://".utf8)
    }

    /// Whether method, URL and header fields contain only allowed characters. A line end, for example, is not allowed.
    var isWellFormed: Bool {
        guard !method.isEmpty, method.utf8.span.areVisible, url.utf8.span.areVisible else { return false }
        return headers.allSatisfy { $0.name.utf8.span.isFieldName && $0.value.utf8.span.isFieldValue }
    }
}

extension Span<UInt8> {
    /// Whether all bytes are visible ASCII characters, without blanks and control characters.
    fileprivate var areVisible: Bool { isASCII(from: 0x21) }

    fileprivate var isFieldName: Bool {
        guard !isEmpty else { return false }
        for index in indices where self[index] == UInt8(ascii: ":") { return false }
        return areVisible
    }

    fileprivate var isFieldValue: Bool {
        if isASCII(from: 0x20) { return true }
        for index in indices {
            let byte = self[index]
            guard byte >= 0x20 && byte != 0x7f || byte == UInt8(ascii: "\t") else { return false }
        }
        return true
    }

    /// Whether all bytes are in `low...0x7e`, checked eight at a time.
    private func isASCII(from low: UInt8) -> Bool {
        let one: UInt64 = 0x0101_0101_0101_0101
        return unsafe withUnsafeBytes { bytes in
            var index = 0
            while index + 8 <= bytes.count {
                let word = unsafe bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self)
                // A byte is refused if its top bit is set, if it exceeds 0x7e (the sum exceeds 0x7f), or if it is below
                // `low` (the difference is negative).
                guard (word | (word &+ one) | (word &- one &* UInt64(low))) & (one &* 0x80) == 0 else { return false }
                index += 8
            }
            while index < bytes.count {
                guard unsafe (low...0x7e).contains(bytes[index]) else { return false }
                index += 1
            }
            return true
        }
    }
}
