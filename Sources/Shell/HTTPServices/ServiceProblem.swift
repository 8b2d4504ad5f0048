package import HTTPSemantics
package import HTTPServer
import JSON

/// Why a request failed, as problem details (RFC 9457), which handlers throw.
package struct ServiceProblem: Error, Codable, Sendable, DescribedBody {
    package static let schemaName: String? = "Problem"
    package static let notes: [String: JSONSchema] = [
        "title": .words("The kind of the problem; the same text for each occurrence."),
        "status": .number(400...599).described("The status of the answer."),
        "detail": .words("Details of this occurrence."),
    ]

    package var title: String
    package var status: Int
    /// Details for the author of the client, without secrets.
    package var detail: String?
    /// The number of seconds after which the client can try again. The number of seconds is in the header field
    /// `Retry-After`, and not in the body.
    package var retryAfter: Int?

    private enum CodingKeys: String, CodingKey { case title, status, detail }

    package init(_ status: Int, _ title: String, detail: String? = nil, retryAfter: Int? = nil) {
        self.status = status
        self.title = title
        self.detail = detail
        self.retryAfter = retryAfter
    }

    /// The answer to a key with domains, if the request is for the whole daemon.
    package static var forWholeDaemon: ServiceProblem {
        ServiceProblem(
            403, "this key is only for some domains", detail: "the request needs a key for the whole daemon")
    }

    package func response(fields: [HTTPField] = []) -> HTTPResponse {
        let body = (try? JSONValue(of: self))?.bytes ?? []
        var response = HTTPResponse(status: status, type: "application/problem+json", body: body)
        if let retryAfter { response.fields.append(HTTPField("Retry-After", "\(retryAfter)")) }
        response.fields += fields
        return response
    }
}
