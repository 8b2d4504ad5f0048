import HTTPSemantics
import HTTPServer
import JSON

package struct SandboxRequest: Sendable {
    package let method: String
    /// The path and query, unchanged.
    package let target: String
    /// The header fields, with names in lower case and the first value of a repeated field.
    package let headers: [String: String]
    package let body: [UInt8]
    /// The HTTP version of the request: `h2` or `http/1.1`.
    package let version: String
    package let connection: UInt64
    /// The names of repeated header fields.
    package var repeatedHeaders: Set<String> = []
    /// Whether the body was longer than ``bodyLimit`` and was cut.
    package var isBodyCut = false
    /// Whether the request may use control resources; false on the TLS port.
    package var mayControl = true
    package var isSecure = false

    /// The number of bytes after which a body is cut; no push provider accepts a longer body.
    package static let bodyLimit = 64 << 10
    /// The maximum size in bytes of all header fields together.
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

    /// Creates a request from its header fields in their original form.
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

    /// The path in the target, still percent-encoded.
    var path: String { String(target.prefix { $0 != "?" }) }

    /// The origin of the request, such as `https://HOST:PORT`, without a default port; `nil` without a host.
    var origin: String? {
        guard let authority = headers[":authority"] ?? headers["host"], !authority.isEmpty else { return nil }
        let usualPort = isSecure ? ":443" : ":80"
        let host = authority.hasSuffix(usualPort) ? authority.dropLast(usualPort.count) : authority[...]
        return (isSecure ? "https://" : "http://") + host.lowercased()
    }

    /// The media type in `Content-Type`, in lower case and without parameters.
    var contentType: String {
        let value = headers["content-type", default: ""].prefix { $0 != ";" }
        return value.filter { $0 != " " && $0 != "\t" }.lowercased()
    }

    /// The names and values in the query, percent-decoded.
    var query: [String: String] { Self.formValues(Array(target.utf8.drop { $0 != UInt8(ascii: "?") }.dropFirst())) }

    /// The names and values in a query or an HTML form, with the first value of a repeated name.
    static func formValues(_ text: [UInt8]) -> [String: String] {
        Dictionary(FormText.items(text[...]).map { ($0.name, $0.value) }, uniquingKeysWith: { first, _ in first })
    }
}

package struct SandboxAnswer: Sendable {
    /// The HTTP status; 0 if only the fault happens.
    package var status: Int
    package var headers: [String: String] = [:]
    package var body: [UInt8] = []
    /// The fault that happens instead of the answer or after it.
    package var fault: Fault?
    /// How long the sandbox waits before it sends the answer.
    package var delay: Duration = .zero

    package enum Fault: String, Sendable {
        /// After the answer, the server sends a GOAWAY and ends the connection. If there is no answer, the GOAWAY says
        /// that the request was not processed.
        case goaway
        /// The server resets the connection and sends no answer.
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
