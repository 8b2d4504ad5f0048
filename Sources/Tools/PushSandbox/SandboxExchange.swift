import HTTPSemantics
import HTTPServer
import JSON

/// A request to the sandbox, over any version of HTTP.
package struct SandboxRequest: Sendable {
    package let method: String
    /// The target with its query, still percent-encoded.
    package let target: String
    /// The header fields, with names in lower case. The first one of repeated fields is used.
    package let headers: [String: String]
    package let body: [UInt8]
    /// `h2` or `http/1.1`.
    package let version: String
    package let connection: UInt64
    /// The names of repeated header fields.
    package var repeatedHeaders: Set<String> = []
    /// Whether the body exceeded ``bodyLimit`` and is incomplete.
    package var isBodyCut = false
    /// Whether the control resources answer; they do so only on the plain port.
    package var mayControl = true
    /// Whether the request came over TLS.
    package var isSecure = false

    /// How many bytes of a body are kept, which is more than any provider accepts.
    package static let bodyLimit = 64 << 10
    /// The maximum size in bytes of the names and values of all header fields together.
    package static let headLimit = 16 << 10

    package init(
        method: String, target: String, headers: [String: String], body: [UInt8], version: String, connection: UInt64
    ) {
        self.method = method
        self.target = target
        self.headers = headers
        self.body = body
        self.version = version
        self.connection = connection
    }

    /// With the header fields unchanged.
    init(
        method: String, target: String, fields: [(name: String, value: String)], body: [UInt8], version: String,
        connection: UInt64
    ) {
        var headers: [String: String] = [:]
        var repeatedHeaders: Set<String> = []
        for (name, value) in fields.map({ ($0.name.lowercased(), $0.value) }) {
            if headers[name] == nil { headers[name] = value } else { repeatedHeaders.insert(name) }
        }
        self.init(
            method: method, target: target, headers: headers, body: body, version: version, connection: connection)
        self.repeatedHeaders = repeatedHeaders
    }

    /// The path of the target, still percent-encoded.
    var path: String { String(target.prefix { $0 != "?" }) }

    /// `https://HOST:PORT` in the client's form, without the default port; `nil` if it names no host.
    var origin: String? {
        guard let authority = headers[":authority"] ?? headers["host"], !authority.isEmpty else { return nil }
        let usualPort = isSecure ? ":443" : ":80"
        let host = authority.hasSuffix(usualPort) ? authority.dropLast(usualPort.count) : authority[...]
        return (isSecure ? "https://" : "http://") + host.lowercased()
    }

    /// The part of `content-type` before its parameters, in lower case.
    var contentType: String {
        let value = headers["content-type", default: ""].prefix { $0 != ";" }
        return value.filter { $0 != " " && $0 != "\t" }.lowercased()
    }

    /// The names and values of the query, decoded.
    var query: [String: String] { Self.formValues(Array(target.utf8.drop { $0 != UInt8(ascii: "?") }.dropFirst())) }

    /// Names and values of a query or an HTML form. The first one of repeated names is used.
    static func formValues(_ text: [UInt8]) -> [String: String] {
        Dictionary(FormText.items(text[...]).map { ($0.name, $0.value) }, uniquingKeysWith: { first, _ in first })
    }
}

/// The sandbox's answer.
package struct SandboxAnswer: Sendable {
    /// 0: no answer, only the fault.
    package var status: Int
    package var headers: [String: String] = [:]
    package var body: [UInt8] = []
    /// A fault instead of the answer, or after it.
    package var fault: Fault?
    /// The delay of the answer.
    package var delay: Duration = .zero

    package enum Fault: String, Sendable {
        /// The client is told that the connection ends after this answer or, without an answer, that the request was
        /// not processed.
        case goaway
        /// The connection is reset without an answer.
        case reset
    }

    package init(status: Int, headers: [String: String] = [:], body: [UInt8] = []) {
        self.status = status
        self.headers = headers
        self.body = body
    }

    init(status: Int, json: JSONValue, headers: [String: String] = [:]) {
        self.init(
            status: status, headers: headers.merging(["content-type": "application/json"]) { mine, _ in mine },
            body: json.bytes)
    }
}
