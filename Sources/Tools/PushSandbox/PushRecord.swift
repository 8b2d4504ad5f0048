import JSON

/// A push and its answer, as one line of the file in which the sandbox records pushes.
package struct PushRecord: Sendable {
    /// The time at which the push arrived, in Unix milliseconds.
    package var time: Int64
    /// The name of the imitated service: `apns`, `fcm`, `webpush`, `acrobits`, `rustore`, `hms` or `http`.
    package var service: String
    /// The interface of the service: `apns`; `v1` or `legacy`; `webpush`; `json` or `form`; `hook`.
    package var interface: String
    /// The token of the push; for web push, the id of the subscription; for `http`, the token in the body or the name
    /// in the path.
    package var token: String
    /// The kind of push: `data.type` or `acme.type` in the payload, Acrobits' verb, or a webhook's `type` or `event`;
    /// otherwise `other`.
    package var type: String
    /// The header fields that control the push; for a webhook, selected fields.
    package var headers: [String: String]
    /// The first characters of a digest of the push's credential, by which tests see a change of the credential.
    package var credential: String
    /// The body of the push; for web push, the decrypted body.
    package var body: String
    /// The status of the answer; 0 if the connection was reset.
    package var status: Int
    /// The provider's reason for refusing the push, if refused.
    package var reason: String?
    package var connection: UInt64
    /// The HTTP version of the request: `h2` or `http/1.1`.
    package var version: String
    /// For the service `http`, the method and the target of the request; `nil` for all other services.
    package var line: String?

    package var isAccepted: Bool { (200..<300).contains(status) && reason == nil }

    /// The push and its answer as one line of JSON, without the line end.
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
