import JSON

/// One line of the sandbox's record: a push and the answer to it.
package struct PushRecord: Sendable {
    /// When the push arrived, in Unix milliseconds.
    package var time: Int64
    /// The service: `apns`, `fcm`, `webpush`, `acrobits` or `http`.
    package var service: String
    /// The interface: `apns`; `v1` or `legacy`; `webpush`; `json` or `form`; `hook`.
    package var interface: String
    /// The token of the push. For a web push, this is the id of the subscription. For `http`, the token is the name in
    /// the path if the body has no token.
    package var token: String
    /// The kind of the push: `data.type` or `acme.type` of the payload, Acrobits' verb, or the `type` or `event` of a
    /// webhook. If the push names no kind, the type is `other`.
    package var type: String
    /// The header fields that control the push. For a webhook, the header fields that the record must contain.
    package var headers: [String: String]
    /// The first characters of a digest of the credential. If two records have equal characters, the same credential
    /// was used for both.
    package var credential: String
    /// The body of the push. For a web push, this is the decrypted text.
    package var body: String
    /// The status of the answer; 0 if the connection was reset without an answer.
    package var status: Int
    /// The provider's reason for a refusal.
    package var reason: String?
    package var connection: UInt64
    /// The version of HTTP by which the push arrived: `h2` or `http/1.1`.
    package var version: String
    /// The method and the target of the request; `nil` except for the service `http`.
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
