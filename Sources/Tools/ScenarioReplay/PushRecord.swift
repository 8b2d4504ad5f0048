package import JSON

/// A push to the sandbox, read from one line of the sandbox's record.
package struct PushRecord: Equatable, Sendable {
    /// The imitated service with its interface, such as `fcm-v1`, `fcm-legacy` or `apns`.
    package let service: String
    package let token: String
    /// The kind of push, such as `invite` or `missed_calls`.
    package let type: String
    /// The HTTP status of the sandbox's answer to the push.
    package let status: Int
    /// The time of the push in milliseconds since 1970.
    package let time: Double
    package let body: JSONValue

    /// Reads a push from one line of the record; `nil` if the line contains no push.
    package init?(line: some StringProtocol) {
        guard let record = JSONValue(text: line), let token = record.text(at: "token") else { return nil }
        let body = record["body"] ?? ""
        // Some records have the body as a string that contains JSON.
        self.body = body.string.flatMap { JSONValue(text: $0) } ?? body
        self.token = token
        service = record.text(at: "service") ?? ""
        type = record.text(at: "type") ?? self.body.text(at: "data.type") ?? self.body.text(at: "acme.type") ?? ""
        status = record.text(at: "status").flatMap { Int($0) } ?? 0
        time = record.text(at: "time").flatMap { Double($0) } ?? 0
    }

    /// The first difference between this push and the expected push; `nil` if there is none.
    package func difference(from expected: ExpectedPush) -> String? {
        if type != expected.type { return "type is \(type), expected \(expected.type)" }
        if let wanted = expected.status, wanted != status { return "status is \(status), expected \(wanted)" }
        if let wanted = expected.service, wanted != service { return "service is \(service), expected \(wanted)" }
        for (path, wanted) in expected.fields.sorted(by: { $0.key < $1.key }) {
            // In FCM's HTTP v1 format, the values are inside `message`. In the legacy format, the values are at the top
            // level.
            let found = body.text(at: path) ?? body.text(at: "message." + path)
            if found != wanted { return "\(path) is \(found ?? "not there"), expected \(wanted)" }
        }
        return nil
    }
}

extension JSONValue {
    init?(text: some StringProtocol) {
        guard let value = try? JSONValue(Array(text.utf8)) else { return nil }
        self = value
    }

    /// The value at a path such as `data.calls.0.remote_uri`, as text.
    ///
    /// - Parameter path: the names of members and the indexes of list elements (from 0), joined by dots. A final `#`
    ///   stands for the number of elements in the list.
    /// - Returns: a string without its quotes, or any other value as JSON text; `nil` if the path leads to no value.
    func text(at path: String) -> String? {
        var value = self
        for key in path.split(separator: ".") {
            // Some payloads contain a list as a string; this string is parsed here.
            if let inner = value.string, let parsed = JSONValue(text: inner) { value = parsed }
            if key == "#" { return value.array.map { String($0.count) } }
            let list = value.array ?? []
            guard let next = value[String(key)] ?? Int(key).flatMap({ list.indices.contains($0) ? list[$0] : nil })
            else {
                return nil
            }
            value = next
        }
        return value.string ?? String(decoding: value.bytes, as: UTF8.self)
    }
}
