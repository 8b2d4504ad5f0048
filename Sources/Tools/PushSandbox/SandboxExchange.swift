import HTTPSemantics
import HTTPServer
import JSON

/// A request to the sandbox, over any version of HTTP.
package struct SandboxRequest: Sendable {
    package let method: String
    /// The target with its query, as it was received.
    package let target: String
    /// The header fields, with names in lower case. If a field is repeated, this is the value of its first occurrence.
    package let headers: [String: String]
    package let body: [UInt8]
    /// The version of HTTP by which the request arrived: `h2` or `http/1.1`.
    package let version: String
    package let connection: UInt64
    /// The names of repeated header fields.
    package var repeatedHeaders: Set<String> = []
    /// Whether the body exceeded ``bodyLimit``, so that its end is missing.
    package var isBodyCut = false
    /// Whether the request may use the control resources, which is allowed only on the plain port.
    package var mayControl = true
    /// Whether the request arrived over TLS.
    package var isSecure = false

    /// How many bytes of a body are kept. No provider accepts a longer body.
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

    /// Makes a request from the header fields as they were received.
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

    /// The path of the target, with percent encoding.
    var path: String { String(target.prefix { $0 != "?" }) }

    /// The origin to which the request was sent, `https://HOST:PORT`, without the default port. The result is `nil` if
    /// the request names no host.
    var origin: String? {
        guard let authority = headers[":authority"] ?? headers["host"], !authority.isEmpty else { return nil }
        let usualPort = isSecure ? ":443" : ":80"
        let host = authority.hasSuffix(usualPort) ? authority.dropLast(usualPort.count) : authority[...]
        return (isSecure ? "https://" : "http://") + host.lowercased()
    }

    /// The media type in `content-type`, without parameters and in lower case.
    var contentType: String {
        let value = headers["content-type", default: ""].prefix { $0 != ";" }
        return value.filter { $0 != " " && $0 != "\t" }.lowercased()
    }

    /// The names and values of the query, decoded.
    var query: [String: String] { Self.formValues(Array(target.utf8.drop { $0 != UInt8(ascii: "?") }.dropFirst())) }

    /// The names and values of a query or an HTML form. If a name is repeated, the first value is used.
    static func formValues(_ text: [UInt8]) -> [String: String] {
        Dictionary(FormText.items(text[...]).map { ($0.name, $0.value) }, uniquingKeysWith: { first, _ in first })
    }
}

/// The sandbox's answer to a request.
package struct SandboxAnswer: Sendable {
    /// The HTTP status. If the status is 0, the sandbox sends no answer, and only the fault occurs.
    package var status: Int
    package var headers: [String: String] = [:]
    package var body: [UInt8] = []
    /// A fault that occurs instead of the answer or after it.
    package var fault: Fault?
    /// How long the answer is delayed.
    package var delay: Duration = .zero

    package enum Fault: String, Sendable {
        /// A GOAWAY: the connection ends after the answer. If there is no answer, the GOAWAY says that the request was
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
