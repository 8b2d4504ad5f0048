/// The description of an HTTP route for authors of clients; `/openapi.json` shows the description as an operation.
///
/// Answers that many routes share are omitted: 400 for malformed requests, and 401 and 403 for routes with a scope.
package struct RouteDescription: Sendable {
    package struct Parameter: Sendable {
        enum Place: String, Sendable {
            case path, query, header
        }

        let name: String
        let place: Place
        let text: String
        let schema: JSONSchema
        let isRequired: Bool
    }

    package struct Body: Sendable {
        let type: String
        let schema: JSONSchema
    }

    package struct Answer: Sendable {
        let status: Int
        let text: String
        /// The bodies of the answer, one for each media type; empty for an answer without a body.
        let bodies: [Body]
    }

    /// The name of the operation in generated clients, such as `listDeadTokens`. If several HTTP routes have the same
    /// operation name, the document appends numbers to the name.
    let operation: String
    package let summary: String
    private(set) var detail: String?
    private(set) var parameters: [Parameter] = []
    private(set) var bodies: [Body] = []
    private(set) var isBodyRequired = true
    private(set) var answers: [Answer] = []

    /// The description of routes that `/openapi.json` omits: routes that only refuse requests, and routes of the
    /// operators' web page.
    package static let leftOut = RouteDescription("", "")

    var isLeftOut: Bool { operation.isEmpty }

    package init(_ operation: String, _ summary: String, detail: String? = nil) {
        self.operation = operation
        self.summary = summary
        self.detail = detail
    }

    // MARK: Requests

    /// Describes the next path parameter of the pattern, `{}` or `{*}`.
    package func path(_ name: String, _ text: String, _ schema: JSONSchema = .text(1 ... .max)) -> RouteDescription {
        adding(Parameter(name: name, place: .path, text: text, schema: schema, isRequired: true))
    }

    package func query(
        _ name: String, _ text: String, _ schema: JSONSchema = .text, isRequired: Bool = false
    ) -> RouteDescription {
        adding(Parameter(name: name, place: .query, text: text, schema: schema, isRequired: isRequired))
    }

    package func header(_ name: String, _ text: String, _ schema: JSONSchema = .text) -> RouteDescription {
        adding(Parameter(name: name, place: .header, text: text, schema: schema, isRequired: false))
    }

    /// Adds a request body of one media type, besides the bodies of other media types.
    package func body(
        _ schema: JSONSchema, type: String = "application/json", isRequired: Bool = true
    ) -> RouteDescription {
        var copy = self
        copy.bodies.append(Body(type: type, schema: schema))
        copy.isBodyRequired = isRequired
        return copy
    }

    package func body(_ body: any Decodable.Type, isRequired: Bool = true) -> RouteDescription {
        self.body(JSONSchema(of: body), isRequired: isRequired)
    }

    private func adding(_ parameter: Parameter) -> RouteDescription {
        var copy = self
        copy.parameters.append(parameter)
        return copy
    }

    // MARK: Answers

    /// Adds an answer with a body of one media type, besides the bodies of other media types with the same status.
    package func answer(
        _ status: Int = 200, _ text: String, _ schema: JSONSchema, type: String = "application/json"
    ) -> RouteDescription {
        var copy = self
        let bodies = copy.answers.first { $0.status == status }?.bodies ?? []
        copy.answers.removeAll { $0.status == status }
        copy.answers.append(Answer(status: status, text: text, bodies: bodies + [Body(type: type, schema: schema)]))
        return copy
    }

    package func answer(_ status: Int = 200, _ text: String, _ body: any Decodable.Type) -> RouteDescription {
        answer(status, text, JSONSchema(of: body))
    }

    /// Adds an answer without a body.
    package func answer(_ status: Int = 200, _ text: String) -> RouteDescription {
        var copy = self
        copy.answers.append(Answer(status: status, text: text, bodies: []))
        return copy
    }

    /// Adds the answer that reports success: 200 with an empty object.
    package func done(_ text: String) -> RouteDescription { answer(200, text, .object([:])) }

    /// Adds an answer with problem details, for a status that is special for the route.
    package func problem(_ status: Int, _ text: String) -> RouteDescription {
        answer(status, text, .problem, type: "application/problem+json")
    }

    package func notStored() -> RouteDescription {
        problem(503, "The store cannot be written now. Nothing was changed.")
    }
    package func notRead() -> RouteDescription { problem(503, "The store cannot be read now.") }
}

extension JSONSchema {
    /// The schema of problem details (RFC 9457).
    package static let problem = JSONSchema(of: ServiceProblem.self)
}
