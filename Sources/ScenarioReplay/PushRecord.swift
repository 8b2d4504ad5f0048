import Foundation

/// One line of the sandbox's record: a push that it answered.
package struct PushRecord: Equatable, Sendable {
    /// `fcm-v1`, `fcm-legacy`, `apns`, ...
    package let service: String
    package let token: String
    /// `invite` or `missed_calls`.
    package let type: String
    /// The HTTP status of the answer.
    package let status: Int
    /// Milliseconds since 1970.
    package let time: Double
    package let body: JSONValue

    /// Reads one line; `nil` when it is not a push.
    package init?(line: some StringProtocol) {
        guard let record = JSONValue(String(line)), let token = record.text(at: "token") else { return nil }
        let body = record["body"] ?? .text("")
        // A body may be kept as the text that was sent.
        if case .text(let text) = body { self.body = JSONValue(text) ?? body } else { self.body = body }
        self.token = token
        service = record.text(at: "service") ?? ""
        type = record.text(at: "type") ?? self.body.text(at: "data.type") ?? self.body.text(at: "acme.type") ?? ""
        status = record.text(at: "status").flatMap { Int($0) } ?? 0
        time = record.text(at: "time").flatMap { Double($0) } ?? 0
    }

    /// Why this is not the push that was expected; `nil` when it is.
    package func difference(from expected: ExpectedPush) -> String? {
        if type != expected.type { return "type is \(type), expected \(expected.type)" }
        if let wanted = expected.status, wanted != status { return "status is \(status), expected \(wanted)" }
        if let wanted = expected.service, wanted != service { return "service is \(service), expected \(wanted)" }
        for (path, wanted) in expected.fields.sorted(by: { $0.key < $1.key }) {
            // FCM's newer interface has one more level.
            let found = body.text(at: path) ?? body.text(at: "message." + path)
            if found != wanted { return "\(path) is \(found ?? "not there"), expected \(wanted)" }
        }
        return nil
    }
}

/// A JSON value to look into.
package indirect enum JSONValue: Equatable, Sendable {
    case text(String)
    case number(Double)
    case flag(Bool)
    case null
    case list([JSONValue])
    case group([String: JSONValue])

    package init?(_ json: String) {
        guard let value = try? JSONDecoder().decode(JSONValue.self, from: Data(json.utf8)) else { return nil }
        self = value
    }

    package subscript(key: String) -> JSONValue? {
        switch self {
        case .group(let group): group[key]
        case .list(let list): Int(key).flatMap { list.indices.contains($0) ? list[$0] : nil }
        case .text, .number, .flag, .null: nil
        }
    }

    /// The value at a path such as `data.calls.0.remote_uri`, as text.
    ///
    /// - Parameter path: keys and places in lists, from 0; a last `#` asks for the number of members.
    /// - Returns: texts without quotes, whole numbers without a point, and the rest as JSON.
    package func text(at path: String) -> String? {
        var value = self
        for key in path.split(separator: ".") {
            // A list may travel inside a text.
            if case .text(let inner) = value, let parsed = JSONValue(inner) { value = parsed }
            if key == "#" {
                guard case .list(let list) = value else { return nil }
                return String(list.count)
            }
            guard let next = value[String(key)] else { return nil }
            value = next
        }
        if case .text(let text) = value { return text }
        return value.json
    }

    private var json: String {
        switch self {
        case .text(let text): "\"\(text)\""
        case .number(let number): Int(exactly: number).map { String($0) } ?? String(number)
        case .flag(let flag): String(flag)
        case .null: "null"
        case .list(let list): "[" + list.map(\.json).joined(separator: ",") + "]"
        case .group(let group):
            "{" + group.sorted { $0.key < $1.key }.map { "\"\($0.key)\":\($0.value.json)" }.joined(separator: ",") + "}"
        }
    }
}

extension JSONValue: Decodable {
    package init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if container.decodeNil() {
            self = .null
        } else if let flag = try? container.decode(Bool.self) {
            self = .flag(flag)
        } else if let number = try? container.decode(Double.self) {
            self = .number(number)
        } else if let text = try? container.decode(String.self) {
            self = .text(text)
        } else if let list = try? container.decode([JSONValue].self) {
            self = .list(list)
        } else {
            self = .group(try container.decode([String: JSONValue].self))
        }
    }
}
