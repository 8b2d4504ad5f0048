import HTTPServer
import JSON
import ProxyRuntime

/// The OpenAPI 3.1 document of the HTTP routes that a listener serves.
struct OpenAPIDocument {
    let title: String
    let routes: [ServiceRouter.Route]

    /// The OpenAPI document as JSON, without HTTP routes that have no description.
    var value: JSONValue {
        let described = routes.filter { $0.description?.isLeftOut == false }
        return [
            "openapi": "3.1.0",
            "info": [
                "title": .string(title), "version": .string(Version.current),
                "license": ["name": "Apache-2.0", "identifier": "Apache-2.0"],
            ],
            "servers": [["url": "/"]],
            "paths": paths(described),
            "components": [
                "schemas": schemas(described), "responses": Self.commonAnswers,
                "securitySchemes": Self.securitySchemes,
            ],
        ]
    }

    // MARK: Paths

    private func paths(_ routes: [ServiceRouter.Route]) -> JSONValue {
        var order: [String] = []
        var items: [String: [(String, JSONValue)]] = [:]
        var uses: [String: Int] = [:]
        for route in routes {
            guard let description = route.description else { continue }
            let path = route.template
            if items[path] == nil { order.append(path) }
            let use = uses[description.operation, default: 0] + 1
            uses[description.operation] = use
            let id = use == 1 ? description.operation : "\(description.operation)_\(use)"
            items[path, default: []].append((route.method.lowercased(), operation(route, description, id: id)))
        }
        return .members(order.map { ($0, .members(items[$0] ?? [])) })
    }

    private func operation(
        _ route: ServiceRouter.Route, _ description: RouteDescription, id: String
    ) -> JSONValue {
        var members: [(String, JSONValue)] = [
            ("operationId", .string(id)), ("summary", .string(description.summary)),
        ]
        if let detail = description.detail { members.append(("description", .string(detail))) }
        if !description.parameters.isEmpty {
            members.append(("parameters", .array(description.parameters.map(parameter))))
        }
        if !description.bodies.isEmpty {
            members.append(
                (
                    "requestBody",
                    ["required": .bool(description.isBodyRequired), "content": content(description.bodies)]
                ))
        }
        members.append(("responses", answers(description, route)))
        members.append(("security", security(of: route)))
        if let scope = route.scope {
            members.append(("x-scope", .string(scope.rawValue)))
            members.append(("x-domains", .string(route.domains.rawValue)))
        }
        return .members(members)
    }

    private func parameter(_ parameter: RouteDescription.Parameter) -> JSONValue {
        [
            "name": .string(parameter.name), "in": .string(parameter.place.rawValue),
            "description": .string(parameter.text), "required": .bool(parameter.isRequired),
            "schema": parameter.schema.value,
        ]
    }

    private func content(_ bodies: [RouteDescription.Body]) -> JSONValue {
        .members(bodies.map { ($0.type, ["schema": $0.schema.value]) })
    }

    // MARK: Answers

    private func answers(_ description: RouteDescription, _ route: ServiceRouter.Route) -> JSONValue {
        var answers = description.answers.map { answer in
            (
                answer.status,
                JSONValue.members(
                    [("description", .string(answer.text))]
                        + (answer.bodies.isEmpty ? [] : [("content", content(answer.bodies))]))
            )
        }
        func common(_ status: Int, _ name: String) {
            guard !answers.contains(where: { $0.0 == status }) else { return }
            answers.append((status, ["$ref": .string("#/components/responses/\(name)")]))
        }
        common(400, "Malformed")
        if route.scope != nil {
            common(401, "Unauthorized")
            common(403, "Forbidden")
        }
        if route.scope != nil || route.showsToken { common(429, "TooManyLogins") }
        if !description.bodies.isEmpty { common(413, "TooLong") }
        common(431, "HeadTooLong")
        return .members(answers.sorted { $0.0 < $1.0 }.map { ("\($0.0)", $0.1) })
    }

    private static func problem(_ text: String, challenge: Bool = false, plain: Bool = false) -> JSONValue {
        var members: [(String, JSONValue)] = [("description", .string(text))]
        if challenge { members.append(("headers", ["WWW-Authenticate": ["schema": JSONSchema.text.value]])) }
        var content: [(String, JSONValue)] = [("application/problem+json", ["schema": JSONSchema.problem.value])]
        // The HTTP server itself refuses some requests before their route is known, with an error in plain text.
        if plain { content.append(("text/plain", ["schema": JSONSchema.text.value])) }
        members.append(("content", .members(content)))
        return .members(members)
    }

    private static let commonAnswers: JSONValue = [
        "Malformed": problem("The request is not well-formed.", plain: true),
        "Unauthorized": problem("The request has no key, or an unknown one.", challenge: true),
        "Forbidden": problem(
            "The key lacks the scope of the operation. Or the key names domains, and `x-domains` is `whole-daemon`.",
            challenge: true),
        "TooManyLogins": problem("The source sent too many wrong passwords, keys or tokens; see Retry-After."),
        "TooLong": problem("The body is too long.", plain: true),
        "HeadTooLong": [
            "description": "Path, query and header fields are too long.",
            "content": ["text/plain": ["schema": JSONSchema.text.value]],
        ],
    ]

    private func schemas(_ routes: [ServiceRouter.Route]) -> JSONValue {
        var schemas = JSONSchema.problem.shared
        for description in routes.compactMap(\.description) {
            let used =
                description.parameters.map(\.schema) + description.bodies.map(\.schema)
                + description.answers.flatMap { $0.bodies.map(\.schema) }
            for schema in used { schemas.merge(schema.shared) { first, _ in first } }
        }
        return .members(schemas.sorted { $0.key < $1.key }.map { ($0.key, $0.value) })
    }

    // MARK: Security

    private func security(of route: ServiceRouter.Route) -> JSONValue {
        guard let scope = route.scope else { return [] }
        // OpenAPI 3.1 permits names of roles for a security scheme other than OAuth; a key's scope is such a role.
        let key: JSONValue = ["key": [.string(scope.rawValue)]]
        return !route.takesPassword ? [key] : [key, ["userPassword": []]]
    }

    private static let securitySchemes: JSONValue = [
        "key": [
            "type": "http", "scheme": "bearer",
            "description":
                "A key of sippushd apikey add; it must have the scope that the operation names, or admin. If the key names domains, objects of other domains do not exist for it.",
        ],
        "userPassword": [
            "type": "apiKey", "in": "query", "name": "password",
            "description":
                "The SIP password of the user in the request. A form or a JSON body can contain it instead.",
        ],
    ]
}

extension ServiceRouter.Route {
    /// The HTTP route's pattern as an OpenAPI path template. An OpenAPI parameter cannot contain slashes, so `{*}` is
    /// described as one segment.
    var template: String {
        var names = (description?.parameters ?? []).filter { $0.place == .path }.map(\.name)[...]
        return pattern.split(separator: "/", omittingEmptySubsequences: false).map { part in
            part == "{}" || part == "{*}" ? "{\(names.popFirst() ?? "")}" : String(part)
        }.joined(separator: "/")
    }
}

extension ServiceRouter {
    /// Adds the HTTP route `/openapi.json`, whose document describes itself and all routes that were added earlier.
    mutating func addDocument(title: String) {
        let description = RouteDescription("getDescription", "This document")
            .answer(200, "An OpenAPI 3.1 document", .object(["openapi": .text, "paths": .map(of: .anything)]))
        let document = Served()
        add("GET", "/openapi.json", scope: nil, domains: .open, described: description) { call throws(ServiceProblem) in
            call.answer(HTTPResponse(type: "application/json", body: document.bytes))
        }
        document.bytes = OpenAPIDocument(title: title, routes: routes).value.bytes
    }

    /// - The type is `@unchecked Sendable`, because it is written once, before any read.
    private final class Served: @unchecked Sendable {
        var bytes: [UInt8] = []
    }
}
