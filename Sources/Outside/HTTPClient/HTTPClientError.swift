/// Why there is no answer.
package struct HTTPClientError: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Code: Hashable, Sendable {
        /// The request itself cannot be sent: bad URL, method, header field or certificate file.
        case invalidRequest
        case resolve
        case connect
        /// The handshake failed or the server's certificate was refused.
        case tls
        case timeout
        /// The connection broke, or the server ended it or the stream (reset, GOAWAY).
        case reset
        /// The server's bytes are not HTTP.
        case badResponse
        case bodyTooLarge
        case cancelled
        /// Memory, or a failure that libcurl has no better name for.
        case failed
    }

    package let code: Code
    /// libcurl's text, for logs: may hold the host, never header fields or bodies.
    package let detail: String

    package init(_ code: Code, detail: String = "") {
        self.code = code
        self.detail = detail
    }

    /// A sentence for operators. It does not name the server, which whoever prints it must add.
    package var sentence: String {
        let words =
            switch code {
            case .invalidRequest: "the request cannot be sent"
            case .resolve: "the host name is not found"
            case .connect: "no connection"
            case .tls: "no TLS connection"
            case .timeout: "no answer in time"
            case .reset: "the connection broke"
            case .badResponse: "the answer is not HTTP"
            case .bodyTooLarge: "the answer is too long"
            case .cancelled: "taken back"
            case .failed: "failed"
            }
        return detail.isEmpty || detail == words ? words : "\(words): \(detail)"
    }

    package var description: String { detail.isEmpty ? "\(code)" : "\(code): \(detail)" }
}
