import Bytes
import JSON

/// Converts an answer of FCM's legacy interface to an outcome, by its `results[0].error`. The HTTP status is 200 even
/// if the push failed.
enum FCMLegacyReason {
    static func outcome(of answer: ProviderAnswer, _ retryAfter: Duration?, isProven: Bool) -> PushOutcome {
        guard answer.status == 200 else { return .unexplained(answer.status, nil, retryAfter) }
        // A gateway that imitates FCM may answer 200 with any body.
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
        // The errors here are MissingRegistration, MessageTooBig, InvalidDataKey, InvalidTtl, InvalidParameters, and
        // new ones.
        default: return .payloadRefused(text)
        }
    }

    /// The first result in an answer's body. No JSON tree is built, because every accepted push is parsed here.
    private struct Result {
        var error: String?
        var token: String?
        var id: String?

        /// Parses a body. The result is `nil` if the body is not JSON or has another structure.
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
                // Text after the JSON value is an error.
                guard try reader.next() == .end, isThere else { return nil }
            } catch {
                return nil
            }
        }

        private init() {}

        /// Parses the first result of the array.
        ///
        /// - Returns: whether there is a first result, in any form.
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

        /// The next value, if it is a text. Any other value is skipped.
        private static func text(from reader: inout JSONReader) throws(JSONError) -> String? {
            let outside = reader.depth
            if case .string(let text) = try reader.next() { return reader.string(text) }
            while reader.depth > outside { _ = try reader.next() }
            return nil
        }
    }
}
