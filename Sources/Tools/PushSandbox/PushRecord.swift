import JSON

/// A push and the answer to it, as one line of the record.
package struct PushRecord: Sendable {
    /// When the push arrived, in Unix milliseconds.
    package var time: Int64
    /// The service: `apns`, `fcm`, `webpush`, `acrobits` or `http`.
    package var service: String
    /// The interface: `apns`; `v1` or `legacy`; `webpush`; `json` or `form`; `hook`.
    package var interface: String
    /// The token. For a web push it is the subscription. For `http` it is the name in the path if the body has no
    /// token.
    package var token: String
    /// The kind of the push: `data.type` or `acme.type` of the payload, Acrobits' verb, or a webhook's `type` or
    /// `event`. `other` if there is none.
    package var type: String
    /// The header fields that control a push, and the header fields of a webhook.
    package var headers: [String: String]
    /// The first characters of a digest of the credential. They show whether a credential was used again.
    package var credential: String
    /// The body. For a web push it is the decrypted text.
    package var body: String
    /// The status of the answer; 0 if the connection was reset without an answer.
    package var status: Int
    /// The provider's reason for a refusal.
    package var reason: String?
    package var connection: UInt64
    /// The version of HTTP: `h2` or `http/1.1`.
    package var version: String
    /// The method and the target. Only for `http`.
    package var line: String?

    package var isAccepted: Bool { (200..<300).contains(status) && reason == nil }

    /// The record as one line, without the line feed.
    package var json: [UInt8] { text.bytes }

    var text: JSONValue {
        let body = (try? JSONValue(Array(self.body.utf8))) ?? .string(self.body)
        let headers = headers.merging(credential.isEmpty ? [:] : ["authorization": "sha256:" + credential]) { $1 }
        var members: [(String, JSONValue)] = [
            ("time", .number(time)), ("service", .string(service)), ("interface", .string(interface)),
            ("token", .string(token)), ("type", .string(type)), ("status", .number(Int64(status))),
        ]
        if let reason { members.append(("reason", .string(reason))) }
        if let line { members.append(("request", .string(line))) }
        members += [
            ("connection", .number(Int64(clamping: connection))), ("protocol", .string(version)),
            ("headers", .members(headers.sorted { $0.key < $1.key }.map { ($0.key, .string($0.value)) })),
            ("body", body),
        ]
        return .members(members)
    }
}
