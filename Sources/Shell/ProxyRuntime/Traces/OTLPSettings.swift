import Bytes
package import HTTPSemantics
package import Settings

/// The settings under `otlp`, for the collector that gets the spans of calls.
package struct OTLPSettings: SettingsGroup, Hashable {
    package var url: String?
    package var headersFile: String?
    package var caFile: String?
    package var serviceName = "sippushd"
    package var node: String?
    package var oneIn: Int = 1
    package var users = false
    package var queue: Int = 4096

    package init() {}

    package static let schema: [Setting<OTLPSettings>] = [
        .value(
            "url", \.url, urlType, example: "\"http://127.0.0.1:4318\"",
            "The collector's URL for OTLP over HTTP with JSON. The daemon adds /v1/traces to a URL without a path. If `url` is not set, the daemon sends no spans."
        ),
        .path(
            "headers-file", \.headersFile, example: "credential:otlp-headers",
            "The file with header fields for each request, one per line, such as Authorization: Bearer KEY."),
        .path(
            "ca-file", \.caFile, example: "/etc/sippushd/collector-ca.pem",
            "The certificate authorities (PEM) of the collector, for https. By default, the daemon trusts the system's authorities."
        ),
        .string("service-name", \.serviceName, "The name of this service in the collector (`service.name`)."),
        .string(
            "node", \.node, example: "sip1",
            "The name of this daemon in the collector (`service.instance.id`). By default, `node` is the host name of the machine."
        ),
        .integer(
            "one-in", in: 1...1_000_000, \.oneIn,
            "The share of calls that have spans: 1 is each call, 10 is one call in ten. Calls that failed always have spans."
        ),
        .bool("users", \.users, "Whether the spans contain the name of the user, as user@domain."),
        .integer(
            "queue", in: 512...100_000, \.queue,
            "The maximum number of spans that wait for the collector. Each span needs about 1 KiB. The daemon drops the oldest spans first."
        ),
    ]

    package func complaints() -> [SettingComplaint] {
        guard let url else { return [] }
        return caFile != nil && !url.hasPrefix("https://")
            ? [SettingComplaint("expected a url with https, because only https needs authorities", key: "ca-file")]
            : []
    }

    private static let urlType = SettingType<String>.checked("URL") { text throws(SettingComplaint) in
        let parts = text.split(separator: "/", maxSplits: 3, omittingEmptySubsequences: false)
        guard parts.count >= 3, parts[0] == "http:" || parts[0] == "https:", parts[1].isEmpty, !parts[2].isEmpty,
            text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f }), !text.contains("#")
        else { throw SettingComplaint("expected http://HOST:PORT or https://HOST:PORT, with or without a path") }
        // A password in the URL would be in the settings file, which more people can read than the secret's file.
        guard !parts[2].contains("@") else { throw SettingComplaint("expected credentials in headers-file instead") }
    }

    /// The URL of the requests to the OTLP collector; `nil` if the settings name no collector.
    var target: String? {
        guard let url else { return nil }
        let parts = url.split(separator: "/", maxSplits: 3, omittingEmptySubsequences: false)
        guard parts.count < 4 || parts[3].isEmpty else { return url }
        return parts[0...2].joined(separator: "/") + "/v1/traces"
    }

    /// The scheme, host and port of the collector, for log lines.
    var place: String {
        (url ?? "").split(separator: "/", maxSplits: 3, omittingEmptySubsequences: false).prefix(3).joined(
            separator: "/")
    }

    /// The maximum size of the file with header fields in bytes.
    package static let longestHeaders = 8192
    /// Header fields that the daemon writes itself, or that would change the meaning of the request.
    private static let own: Set<String> = [
        "host", "content-type", "content-length", "content-encoding", "transfer-encoding", "connection", "expect",
    ]

    /// The header fields of the file; empty without a file.
    func headers() throws(StartError) -> [HTTPField] {
        guard let headersFile else { return [] }
        do {
            return try Self.headers(at: headersFile)
        } catch let problem as LineProblem {
            throw StartError("otlp: \(headersFile): \(problem)")
        } catch {
            throw StartError("otlp: \(error)")
        }
    }

    /// Reads a file with header fields. An error in the file with header fields names the line's number, but never the
    /// line's text.
    package static func headers(at path: String) throws -> [HTTPField] {
        let bytes = try SettingsFile.bytes(at: path, limit: longestHeaders)
        var fields: [HTTPField] = []
        for (index, line) in bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).enumerated() {
            guard let field = field(line) else { throw LineProblem(line: index + 1, words: "expected NAME: VALUE") }
            guard let field else { continue }
            guard !own.contains(field.name.lowercased()) else {
                throw LineProblem(line: index + 1, words: "the daemon writes this field itself")
            }
            fields.append(field)
        }
        return fields
    }

    private struct LineProblem: Error, CustomStringConvertible {
        let line: Int
        let words: String

        var description: String { "line \(line): \(words)" }
    }

    /// Reads a line; the inner optional is `nil` for an empty line.
    private static func field(_ line: ArraySlice<UInt8>) -> HTTPField?? {
        let line = trimmed(line)
        guard !line.isEmpty else { return .some(nil) }
        guard let colon = line.firstIndex(of: UInt8(ascii: ":")), colon > line.startIndex,
            line[..<colon].allSatisfy(\.isNameByte)
        else { return nil }
        let value = trimmed(line[(colon + 1)...])
        guard !value.isEmpty, value.allSatisfy({ $0 >= 0x20 && $0 < 0x7f }) else { return nil }
        return HTTPField(String(decoding: line[..<colon], as: UTF8.self), String(decoding: value, as: UTF8.self))
    }

    private static func trimmed(_ bytes: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        var bytes = bytes
        while let first = bytes.first, first <= 0x20 { bytes.removeFirst() }
        while let last = bytes.last, last <= 0x20 { bytes.removeLast() }
        return bytes
    }
}
