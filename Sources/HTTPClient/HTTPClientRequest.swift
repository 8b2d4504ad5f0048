package import Addressing

/// One header field of a request or response.
package struct HTTPHeader: Hashable, Sendable {
    package let name: String
    package let value: String

    package init(_ name: String, _ value: String) {
        self.name = name
        self.value = value
    }
}

/// Everything about one HTTP request.
package struct HTTPClientRequest: Sendable {
    package enum Version: Sendable, Hashable {
        case http1
        /// HTTP/2 over TLS when the server offers it, else HTTP/1.1. Without TLS: HTTP/1.1.
        case http2
    }

    package var method: String
    /// Absolute, `http` or `https`, percent-encoded by whoever made it.
    package var url: String
    package var headers: [HTTPHeader]
    package var body: [UInt8]
    package var version = Version.http2
    /// How long the whole exchange may take, from the call to the last byte of the answer.
    package var timeout: Duration = .seconds(10)
    package var connectTimeout = HTTPClientRequest.standardConnectTimeout
    package static let standardConnectTimeout: Duration = .seconds(5)
    /// How many bytes the response's body may have; a longer one fails the request.
    package var responseLimit = 1 << 20
    /// Certificate authorities in a PEM file, instead of the system's.
    package var authorityFile: String?
    /// The certificate that the server is shown, and its key: PEM files.
    package var certificateFile: String?
    package var keyFile: String?
    /// A Unix-domain socket to connect to instead of the URL's host.
    package var unixSocketPath: String?
    /// An address to connect to instead of resolving the URL's host; name and certificate stay those of the URL.
    package var address: IPAddress?
    /// Requests share connections, and limits on them, within their group only.
    package var group = ""

    package init(method: String = "GET", url: String, headers: [HTTPHeader] = [], body: [UInt8] = []) {
        self.method = method
        self.url = url
        self.headers = headers
        self.body = body
    }

    /// Whether method, URL and header fields hold only what may be sent. A line end in them would begin another header
    /// field.
    var isWellFormed: Bool {
        guard !method.isEmpty, method.utf8.span.areVisible, url.utf8.span.areVisible else { return false }
        return headers.allSatisfy { $0.name.utf8.span.isFieldName && $0.value.utf8.span.isFieldValue }
    }
}

extension Span<UInt8> {
    /// Whether all bytes are visible ASCII, without blanks and controls.
    fileprivate var areVisible: Bool {
        var isGood = true
        for index in indices { isGood = isGood && self[index] &- 0x21 < 0x5e }
        return isGood
    }

    fileprivate var isFieldName: Bool {
        guard !isEmpty else { return false }
        for index in indices where self[index] &- 0x21 >= 0x5e || self[index] == UInt8(ascii: ":") { return false }
        return true
    }

    fileprivate var isFieldValue: Bool {
        for index in indices {
            let byte = self[index]
            guard byte >= 0x20 && byte != 0x7f || byte == UInt8(ascii: "\t") else { return false }
        }
        return true
    }
}
