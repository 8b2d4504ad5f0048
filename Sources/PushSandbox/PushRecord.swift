internal import JSON

/// A push as it came and as it was answered: one line of the record.
package struct PushRecord: Sendable {
    /// Unix milliseconds.
    package var time: Int64
    /// `apns` or `fcm`.
    package var service: String
    /// `apns`, `v1` or `legacy`.
    package var interface: String
    package var token: String
    /// `data.type` or `acme.type` of the payload; `other` when there is none.
    package var type: String
    /// `apns-*` headers.
    package var headers: [String: String]
    /// The first characters of a digest of the credential: shows whether it was used again.
    package var credential: String
    package var body: String
    /// 0 when the connection broke without an answer.
    package var status: Int
    /// The provider's word for what it refused.
    package var reason: String?
    package var connection: UInt64
    /// `h2` or `http/1.1`.
    package var version: String

    package var isAccepted: Bool { status == 200 && reason == nil }

    /// One line, without its end.
    package var json: [UInt8] { text.bytes }

    var text: JSONText {
        let body = (try? JSONValue(Array(self.body.utf8))).map { JSONText($0) } ?? JSONText(self.body)
        let headers = headers.merging(credential.isEmpty ? [:] : ["authorization": "sha256:" + credential]) { $1 }
        return .object(
            [
                ("time", JSONText(time)), ("service", JSONText(service)), ("interface", JSONText(interface)),
                ("token", JSONText(token)), ("type", JSONText(type)),
                ("status", JSONText(Int64(status))),
            ] + (reason.map { [("reason", JSONText($0))] } ?? []) + [
                ("connection", JSONText(Int64(clamping: connection))), ("protocol", JSONText(version)),
                ("headers", .object(headers.sorted { $0.key < $1.key }.map { ($0.key, JSONText($0.value)) })),
                ("body", body),
            ])
    }
}
