package import JSON

/// A push to the sandbox, read from one line of the file in which the sandbox records pushes.
package struct PushRecord: Hashable, Sendable {
    /// The imitated service and its interface, such as `fcm-v1`, `fcm-legacy` or `apns`.
    package let service: String
    package let token: String
    /// The kind of push, such as `invite` or `missed_calls`.
    package let type: String
    /// The HTTP status of the sandbox's answer.
    package let status: Int
    /// The time of the push in milliseconds since 1970.
    package let time: Double
    package let body: JSONValue
    /// The whole line, as JSON.
    package let record: JSONValue

    /// Reads a push from one line of the file; `nil` if the line has no push.
    package init?(line: some StringProtocol) {
        guard let record = JSONValue(text: line), let token = record.text(at: "token") else { return nil }
        self.record = record
        let body = record["body"] ?? ""
        // The body is a string that contains JSON in some recorded pushes.
        self.body = body.string.flatMap { JSONValue(text: $0) } ?? body
        self.token = token
        service = record.text(at: "service") ?? ""
        type = record.text(at: "type") ?? self.body.text(at: "data.type") ?? self.body.text(at: "acme.type") ?? ""
        status = record.text(at: "status").flatMap { Int($0) } ?? 0
        time = record.text(at: "time").flatMap { Double($0) } ?? 0
    }

    /// The push's label in the ladder diagram, with a name for its token.
    func label(token: String) -> String {
        let refused = status == 0 || (200..<300).contains(status) ? "" : ": \(status)"
        return "\(type) to \(token)\(refused)"
    }

    /// The first difference from the expected push, if any.
    package func difference(from expected: ExpectedPush) -> Mismatch? {
        if type != expected.type { return Self.mismatch("type", type, expected.type) }
        if let wanted = expected.status, wanted != status { return Self.mismatch("status", "\(status)", "\(wanted)") }
        if let wanted = expected.service, wanted != service { return Self.mismatch("service", service, wanted) }
        for (path, wanted) in expected.fields.sorted(by: { $0.key < $1.key }) {
            // FCM's HTTP v1 format has the push's values inside `message`. FCM's legacy format has the push's values at
            // the top level.
            let found = body.text(at: path) ?? body.text(at: "message." + path)
            if found != wanted { return Self.mismatch(path, found ?? "not there", wanted) }
        }
        return nil
    }

    private static func mismatch(_ name: String, _ seen: String, _ expected: String) -> Mismatch {
        Mismatch(name: name, phrase: "\(name) is", seen: seen, expected: expected)
    }
}

extension JSONValue {
    init?(text: some StringProtocol) {
        guard let value = try? JSONValue(Array(text.utf8)) else { return nil }
        self = value
    }

    /// The value at a path such as `data.calls.0.remote_uri`, as text.
    ///
    /// - Parameter path: names of members and indexes of list elements (from 0), joined by dots; a final `#` is the
    ///   number of elements.
    /// - Returns: a string without quotes, or another value as JSON text; `nil` if no value is at the path.
    func text(at path: String) -> String? {
        var value = self
        for key in path.split(separator: ".") {
            // A list is a string in some payloads, so the string is parsed too.
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
