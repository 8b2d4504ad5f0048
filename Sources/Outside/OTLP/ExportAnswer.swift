import JSON

/// A collector's answer to a request with spans.
package enum ExportAnswer: Hashable, Sendable {
    /// The collector accepted the spans, except the given number of rejected spans. The collector's message is a
    /// warning, or the reason of the rejection.
    case taken(rejected: Int, message: String)
    /// The collector wants the same request again, after the given number of seconds.
    case again(after: Int?, message: String)
    /// The collector refused the request: do not send the request again.
    case refused(message: String)

    /// The maximum length of a message from the collector.
    package static let longestMessage = 200

    /// Reads an answer.
    ///
    /// - Parameters:
    ///   - status: the HTTP status.
    ///   - body: the body, in JSON or another form.
    ///   - retryAfter: the value of Retry-After; a date is ignored.
    package init(status: Int, body: [UInt8], retryAfter: String?) {
        let value = try? JSONValue(body)
        switch status {
        case 200...299:
            let partial = value?["partialSuccess"]
            self = .taken(
                rejected: max(0, Self.number(partial?["rejectedSpans"]) ?? 0),
                message: Self.cut(partial?["errorMessage"]?.string ?? ""))
        case 429, 502, 503, 504:
            self = .again(
                after: retryAfter.flatMap { Int($0) }.map { max(0, $0) }, message: Self.message(status, value))
        default: self = .refused(message: Self.message(status, value))
        }
    }

    /// A 64-bit number, which the protocol writes as a text or as a number.
    private static func number(_ value: JSONValue?) -> Int? {
        switch value {
        case .string(let text), .number(let text): Int(text)
        default: nil
        }
    }

    private static func message(_ status: Int, _ value: JSONValue?) -> String {
        let text = cut(value?["message"]?.string ?? "")
        return text.isEmpty ? "status \(status)" : "status \(status): \(text)"
    }

    private static func cut(_ text: String) -> String { String(text.prefix(longestMessage)) }
}
