/// The description of a route for authors of clients. Each route gets a description when it is registered, and
/// `/openapi.json` shows the description as an operation.
///
/// Answers that all routes share are not repeated here: 400 for malformed requests, and 401 and 403 for routes with a
/// scope.
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

    /// The operation's name in generated clients, such as `listDeadTokens`. Routes with the same meaning have the same
    /// name. If a name occurs again, the document appends a number to it.
    let operation: String
    package let summary: String
    private(set) var detail: String?
    private(set) var parameters: [Parameter] = []
    private(set) var bodies: [Body] = []
    private(set) var isBodyRequired = true
    private(set) var answers: [Answer] = []

    /// The description of routes that only refuse the requests to a path. `/openapi.json` does not include these
    /// routes.
    static let leftOut = RouteDescription("", "")

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

    /// Adds a request body. To offer several media types, call this method once for each.
    package func body(
        _ schema: JSONSchema, type: String = "application/json", isRequired: Bool = true
    ) -> RouteDescription {
        var copy = self
        copy.bodies.append(Body(type: type, schema: schema))
        copy.isBodyRequired = isRequired
        return copy
    }

    package func body(_ body: any Decodable.Type) -> RouteDescription { self.body(JSONSchema(of: body)) }

    private func adding(_ parameter: Parameter) -> RouteDescription {
        var copy = self
        copy.parameters.append(parameter)
        return copy
    }

    // MARK: Answers

    /// Adds an answer with a body. To offer several media types with one status, call this method once for each.
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

    /// Adds the answer 200 with an empty object, which reports success.
    package func done(_ text: String) -> RouteDescription { answer(200, text, .object([:])) }

    /// Adds an answer with problem details: a problem that only this route has, or the meaning of a common status for
    /// this route.
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
