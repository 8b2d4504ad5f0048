/// A request to the stand-in, however it came.
package struct SandboxRequest: Sendable {
    package let method: String
    /// With query, percent-encoded.
    package let target: String
    /// Names in lower case.
    package let headers: [String: String]
    package let body: [UInt8]
    /// `h2` or `http/1.1`.
    package let version: String
    package let connection: UInt64

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

    var path: String { String(target.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)[0]) }
}

/// What the stand-in answers.
package struct SandboxAnswer: Sendable {
    package var status: Int
    package var headers: [String: String] = [:]
    package var body: [UInt8] = []
    /// What is done instead of, or after, the answer.
    package var fault: Fault?
    /// The answer waits that long.
    package var delay: Duration = .zero

    package enum Fault: String, Codable, Sendable {
        /// The connection is told to end after this answer.
        case goaway
        /// The connection breaks; there is no answer.
        case reset
    }

    package init(status: Int, headers: [String: String] = [:], body: [UInt8] = []) {
        self.status = status
        self.headers = headers
        self.body = body
    }

    init(status: Int, json: String, headers: [String: String] = [:]) {
        self.init(
            status: status, headers: headers.merging(["content-type": "application/json"]) { mine, _ in mine },
            body: Array(json.utf8))
    }
}
