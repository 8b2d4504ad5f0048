/// Why a request got no response.
package struct HTTPClientError: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Code: Hashable, Sendable {
        /// The request cannot be sent: its URL, method, a header field or a certificate file is wrong.
        case invalidRequest
        case resolve
        case connect
        /// The handshake failed, or the server's certificate was refused.
        case tls
        /// The proxy did not open a tunnel to the server now. A later request may succeed.
        case proxy
        /// The proxy refuses our credentials, or refuses connections to this server.
        case proxyRefused
        case timeout
        /// The connection broke, or the server ended the connection or the stream (reset, GOAWAY).
        case reset
        /// The server's bytes are not HTTP.
        case badResponse
        case bodyTooLarge
        case cancelled
        /// Memory is lacking, or libcurl reports no specific error.
        case failed
    }

    package let code: Code
    /// A text for logs, mostly from libcurl. The text may contain the host, but no header fields or bodies.
    package let detail: String

    package init(_ code: Code, detail: String = "") {
        self.code = code
        self.detail = detail
    }

    /// A sentence about the error, for operators. The caller must add the server's name.
    package var sentence: String {
        let words =
            switch code {
            case .invalidRequest: "the request cannot be sent"
            case .resolve: "the host name cannot be resolved"
            case .connect: "the connection failed"
            // The detail already names the proxy.
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
