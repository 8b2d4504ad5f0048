package import HTTPSemantics

/// The answer to an HTTP request.
package struct HTTPResponse: Sendable {
    package var status: Int
    package var fields: [HTTPField]
    package var body: [UInt8]
    /// Whether the server closes the connection after the response.
    package var endsConnection = false

    package init(status: Int, fields: [HTTPField] = [], body: [UInt8] = []) {
        self.status = status
        self.fields = fields
        self.body = body
    }

    /// Makes a response with a body of the given media type.
    package init(status: Int = 200, type: String, body: [UInt8]) {
        self.init(status: status, fields: [HTTPField("Content-Type", type)], body: body)
    }

    /// Makes a response with one line of plain text.
    package init(status: Int, text: String) {
        self.init(status: status, type: "text/plain; charset=utf-8", body: Array((text + "\n").utf8))
    }
}
