import Bytes
import JSON

/// Converts an answer of FCM's legacy interface into a ``PushOutcome``, by `results[0].error` in the body. In FCM's
/// legacy interface, the HTTP status is 200 even if the push failed.
enum FCMLegacyReason {
    static func outcome(of answer: ProviderAnswer, _ retryAfter: Duration?, isProven: Bool) -> PushOutcome {
        guard answer.status == 200 else { return .unexplained(answer.status, nil, retryAfter) }
        // A 200 with a body without results is treated as accepted, because gateways that imitate FCM send such
        // answers.
        guard let result = Result(answer.body) else { return .accepted(nil) }
        guard let text = result.error else {
            if let token = result.token, !token.isEmpty { return .acceptedWithNewToken(ByteString(token)) }
            return .accepted(result.id.map { ByteString($0) })
        }
        switch text {
        case "NotRegistered", "InvalidRegistration": return .tokenDead(since: nil)
        case "MismatchSenderId", "InvalidPackageName": return .foreignToken(text, isProven: isProven)
        case "Unavailable", "InternalServerError", "DeviceMessageRateExceeded", "TopicsMessageRateExceeded":
            return .retry(after: retryAfter)
        case "InvalidApnsCredential": return .credentialsRefused(text)
        // Google's error is MissingRegistration, MessageTooBig, InvalidDataKey, InvalidTtl or InvalidParameters, or is
        // unknown.
        default: return .payloadRefused(text)
        }
    }

    /// The first element of `results` in an answer's body. For speed, the first result is parsed without building a
    /// JSON tree.
    private struct Result {
        var error: String?
        var token: String?
        var id: String?

        /// Parses the body of an answer; `nil` if the body is not JSON or contains no results.
        init?(_ body: [UInt8]) {
            guard body.count <= ProviderAnswer.bodyLimit, var reader = try? JSONReader(body) else { return nil }
            do throws(JSONError) {
                guard try reader.next() == .objectStart else { return nil }
                var isThere = false
                while case .key(let key) = try reader.next() {
                    guard reader.isEqual(key, to: "results") else {
                        try reader.skipValue()
                        continue
                    }
                    self = Result()
                    isThere = try readFirst(from: &reader)
                }
                // An answer with text after the JSON value is malformed.
                guard try reader.next() == .end, isThere else { return nil }
            } catch {
                return nil
            }
        }

        private init() {}

        /// Parses the first element of the array `results`.
        ///
        /// - Returns: whether the array has a first element, of any type.
        private mutating func readFirst(from reader: inout JSONReader) throws(JSONError) -> Bool {
            let outside = reader.depth
            let isArray = try reader.next() == .arrayStart
            let token = reader.depth > outside ? try reader.next() : .arrayEnd
            let isThere = isArray && token != .arrayEnd
            if isThere, token == .objectStart { try readMembers(from: &reader) }
            while reader.depth > outside { _ = try reader.next() }
            return isThere
        }

        private mutating func readMembers(from reader: inout JSONReader) throws(JSONError) {
            while case .key(let key) = try reader.next() {
                if reader.isEqual(key, to: "message_id") {
                    id = try Self.text(from: &reader)
                } else if reader.isEqual(key, to: "registration_id") {
                    token = try Self.text(from: &reader)
                } else if reader.isEqual(key, to: "error") {
                    error = try Self.text(from: &reader)
                } else {
                    try reader.skipValue()
                }
            }
        }

        /// Returns the next JSON value if it is a string, and skips a JSON value of another type.
        private static func text(from reader: inout JSONReader) throws(JSONError) -> String? {
            let outside = reader.depth
            if case .string(let text) = try reader.next() { return reader.string(text) }
            while reader.depth > outside { _ = try reader.next() }
            return nil
        }
    }
}
