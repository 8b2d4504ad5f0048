package import Addressing
package import Crypto
package import HTTPSemantics

/// The route of an HTTP request: how the request reaches the server, and by which certificate the client authenticates
/// to the server.
package struct HTTPRoute: Hashable, Sendable {
    package enum Version: Sendable, Hashable {
        case http1
        /// HTTP/2 over TLS if the server supports it, and HTTP/1.1 if not. Requests without TLS always use HTTP/1.1.
        case http2
    }

    package var version = Version.http2
    /// The certificate authorities that the client trusts; `nil` for the authorities of the system.
    package var authority: PEM?
    /// The client certificate and its private key.
    package var certificate: PEM?
    package var key: PEM?
    /// The path of a Unix-domain socket that replaces the URL's host as the destination of the request; `nil` to use
    /// the host.
    package var unixSocketPath: String?
    /// The address to which the request is sent, instead of the addresses of the URL's host. TLS still sends the URL's
    /// host as the server name, and the certificate must cover this host.
    package var address: IPAddress?
    /// The HTTP proxy through which the server is reached.
    package var proxy: HTTPProxy?
    /// The name of the request's group: only requests of one group share connections and limits.
    package var group = ""

    package init() {}
}

extension HTTPRoute {
    /// The path of the file with the certificate authorities, which is read for each connection.
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
    /// The absolute URL, which begins with `http` or `https` and has percent encoding.
    package var url: String
    package var headers: [HTTPField]
    package var body: [UInt8]
    /// The time limit of the request, from its start to the last byte of the response.
    package var timeout: Duration = .seconds(10)
    package var connectTimeout = HTTPClientRequest.standardConnectTimeout
    package static let standardConnectTimeout: Duration = .seconds(5)
    /// The maximum size of the response body in bytes. If the response has a longer body, the request fails.
    package var responseLimit = 1 << 20
    package var route: HTTPRoute {
        get { shared.route }
        set { shared = SharedRoute(newValue) }
    }
    private var shared = SharedRoute.standard

    /// Stores the way of an HTTP request to its server in an object that all copies of the request share. If two
    /// requests share one object, their routes are equal, and the values need not be compared.
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

    /// Whether the client may try HTTP/2 for the request.
    package var mayUseHTTP2: Bool {
        shared.route.version == .http2 && shared.route.unixSocketPath == nil && url.utf8.starts(with: "https://".utf8)
    }

    /// Whether method, URL and header fields contain only allowed characters. If the characters were not checked, a
    /// line end in a value could begin another header field.
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

    /// Whether all bytes are in `low...0x7e`. The bytes of the text are checked eight at a time.
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
