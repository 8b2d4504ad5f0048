package import Addressing
package import HTTPSemantics

/// The route and identity of requests: the values that the requests of one group share.
package struct HTTPRoute: Hashable, Sendable {
    package enum Version: Sendable, Hashable {
        case http1
        /// HTTP/2 over TLS if the server supports it, else HTTP/1.1. Without TLS: HTTP/1.1.
        case http2
    }

    package var version = Version.http2
    /// Certificate authorities in a PEM file, instead of the system's.
    package var authorityFile: String?
    /// The client certificate and its key: PEM files.
    package var certificateFile: String?
    package var keyFile: String?
    /// A Unix-domain socket to connect to instead of the URL's host.
    package var unixSocketPath: String?
    /// An address to connect to instead of resolving the URL's host. Name and certificate are still the URL's.
    package var address: IPAddress?
    /// Requests share connections and limits only within their group.
    package var group = ""

    package init() {}
}

/// One HTTP request with all its options.
package struct HTTPClientRequest: Sendable {
    package var method: String
    /// Absolute, `http` or `https`, already percent-encoded.
    package var url: String
    package var headers: [HTTPField]
    package var body: [UInt8]
    /// The time limit of the whole exchange, from the call to the last byte of the answer.
    package var timeout: Duration = .seconds(10)
    package var connectTimeout = HTTPClientRequest.standardConnectTimeout
    package static let standardConnectTimeout: Duration = .seconds(5)
    /// The maximum size of the response's body in bytes. A longer one fails the request.
    package var responseLimit = 1 << 20
    package var route: HTTPRoute {
        get { shared.route }
        set { shared = SharedRoute(newValue) }
    }
    private var shared = SharedRoute.standard

    /// Copies of a request share one object, so that equal routes are recognised without a comparison.
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

    /// Whether to try HTTP/2.
    package var mayUseHTTP2: Bool {
        shared.route.version == .http2 && shared.route.unixSocketPath == nil && url.utf8.starts(with: "https://".utf8)
    }

    /// Whether method, URL and header fields contain only allowed characters. A line end would begin another header
    /// field.
    var isWellFormed: Bool {
        guard !method.isEmpty, method.utf8.span.areVisible, url.utf8.span.areVisible else { return false }
        return headers.allSatisfy { $0.name.utf8.span.isFieldName && $0.value.utf8.span.isFieldValue }
    }
}

extension Span<UInt8> {
    /// Whether all bytes are visible ASCII, without blanks and controls.
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

    /// Whether all bytes are in `low...0x7e`. They are checked eight at a time.
    private func isASCII(from low: UInt8) -> Bool {
        let one: UInt64 = 0x0101_0101_0101_0101
        return unsafe withUnsafeBytes { bytes in
            var index = 0
            while index + 8 <= bytes.count {
                let word = unsafe bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self)
                // The top bit of a byte is set if it was set before, if the sum exceeds 0x7f, or if the difference is
                // negative.
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
