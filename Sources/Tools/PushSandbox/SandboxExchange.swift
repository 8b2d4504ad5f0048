import HTTPServer
import JSON

/// A request to the stand-in, however it came.
package struct SandboxRequest: Sendable {
    package let method: String
    /// The target with its query, still percent-encoded.
    package let target: String
    /// The header fields, their names in lower case. Of repeated ones the first counts.
    package let headers: [String: String]
    package let body: [UInt8]
    /// `h2` or `http/1.1`.
    package let version: String
    package let connection: UInt64
    /// The names of header fields that came more than once.
    package var repeatedHeaders: Set<String> = []
    /// Whether the body was longer than a connection keeps, ``bodyLimit``, and so is not complete.
    package var isBodyCut = false
    /// Whether the control resources answer, which they do on the plain port only.
    package var mayControl = true
    /// Whether the request came over TLS.
    package var isSecure = false

    /// How many bytes of a body are kept, which is more than any provider takes.
    package static let bodyLimit = 64 << 10
    /// How many bytes the names and values of all header fields may have together.
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

    /// With the header fields as they came.
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

    /// `https://HOST:PORT` as the client has it, without the usual port; `nil` when it names no host.
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

    /// Names and values of a query or an HTML form; of repeated names the first counts.
    static func formValues(_ text: [UInt8]) -> [String: String] {
        Dictionary(FormText.items(text[...]).map { ($0.name, $0.value) }, uniquingKeysWith: { first, _ in first })
    }
}

/// What the stand-in answers.
package struct SandboxAnswer: Sendable {
    /// 0: there is no answer, only the fault.
    package var status: Int
    package var headers: [String: String] = [:]
    package var body: [UInt8] = []
    /// What is done instead of the answer, or after it.
    package var fault: Fault?
    /// How long the answer waits.
    package var delay: Duration = .zero

    package enum Fault: String, Sendable {
        /// The client is told that the connection ends after this answer or, without an answer, that the request was
        /// not looked at.
        case goaway
        /// The connection breaks; there is no answer.
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
