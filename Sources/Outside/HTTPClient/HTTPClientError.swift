/// The reason why an HTTP request got no response.
package struct HTTPClientError: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Code: Hashable, Sendable {
        /// The request cannot be sent: its URL, method, a header field or a certificate file is wrong.
        case invalidRequest
        case resolve
        case connect
        /// The TLS handshake failed, or the client refused the server's certificate.
        case tls
        /// The proxy could not open a tunnel to the server. After a failure of the proxy, a later request may succeed.
        case proxy
        /// The proxy refused the daemon's credentials, or does not allow connections to the server.
        case proxyRefused
        case timeout
        /// The connection broke, or the server ended the connection or the request's stream (reset, GOAWAY).
        case reset
        /// The bytes from the server are not an HTTP response.
        case badResponse
        case bodyTooLarge
        case cancelled
        /// The request failed because memory is lacking, or for a reason that libcurl does not name.
        case failed
    }

    package let code: Code
    /// A text about the error, for logs; most texts come from libcurl. The text about an HTTP error may contain the
    /// host, but never header fields or bodies.
    package let detail: String

    package init(_ code: Code, detail: String = "") {
        self.code = code
        self.detail = detail
    }

    /// A sentence for operators about the failure of the HTTP request. The sentence about an HTTP error does not name
    /// the server, because the code that logs the sentence adds the name.
    package var sentence: String {
        let words =
            switch code {
            case .invalidRequest: "the request cannot be sent"
            case .resolve: "the host name cannot be resolved"
            case .connect: "the connection failed"
            // The text in `detail` is a whole sentence that names the proxy.
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
