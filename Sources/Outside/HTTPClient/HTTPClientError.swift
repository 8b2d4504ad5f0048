/// Why a request got no response.
package struct HTTPClientError: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Code: Hashable, Sendable {
        /// The request cannot be sent: its URL, method, header field or certificate file is wrong.
        case invalidRequest
        case resolve
        case connect
        /// The TLS handshake failed, or the client refused the server's certificate.
        case tls
        /// The proxy could not open a tunnel to the server, but may succeed later.
        case proxy
        /// The proxy refused the daemon's credentials, or does not allow connections to the server.
        case proxyRefused
        case timeout
        /// The connection broke, or the server ended the connection or the stream (reset, GOAWAY).
        case reset
        /// The bytes from the server are not an HTTP response.
        case badResponse
        case bodyTooLarge
        case cancelled
        /// Memory is lacking, or libcurl does not name the reason.
        case failed
    }

    package let code: Code
    /// A text for logs, mostly from libcurl. The text about the error may contain the host, but never header fields or
    /// bodies.
    package let detail: String

    package init(_ code: Code, detail: String = "") {
        self.code = code
        self.detail = detail
    }

    /// A sentence for operators, without the server's name, which the caller adds.
    package var sentence: String {
        let words =
            switch code {
            case .invalidRequest: "the request cannot be sent"
            case .resolve: "the host name cannot be resolved"
            case .connect: "the connection failed"
            // For a proxy's failure, `detail` is a whole sentence that names the proxy.
            case .proxy, .proxyRefused: detail
            case .tls: "the TLS handshake failed"
            case .timeout: "no answer in time"
            case .reset: "the connection broke"
            case .badResponse: "the answer is not HTTP"
            case .bodyTooLarge: "the answer is too long"
            case .cancelled: "cancelled"
            case .failed: "failed"
            }
        return detail.isEmpty || detail == words ? words : "\(words): \(detail)"
    }

    package var description: String { detail.isEmpty ? "\(code)" : "\(code): \(detail)" }
}
