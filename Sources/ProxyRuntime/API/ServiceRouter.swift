/// Which handler serves which method and path. Each service registers its routes before the listener starts.
package struct ServiceRouter {
    /// Called on the loop. What it throws is answered; otherwise it answers the call itself, now or later.
    package typealias Handler = (ServiceCall) throws(ServiceProblem) -> Void

    package struct Route {
        package let method: String
        /// As it was registered, for logs.
        package let pattern: String
        /// What a key must be allowed; `nil`: no key is asked for.
        package let scope: APIScope?
        let segments: [Segment]
        let handler: Handler

        var isChange: Bool { method != "GET" }
    }

    enum Segment: Hashable {
        case text(String)
        case parameter
    }

    enum Match {
        case found(Route, parameters: [String])
        /// The path is served, with these methods only.
        case otherMethod([String])
        case nothing
    }

    private var routes: [Route] = []

    package init() {}

    /// Adds a route. In the pattern `{}` stands for one whole segment of any text but the empty one: `/v1/users/{}/bucket`.
    package mutating func add(
        _ method: String, _ pattern: String, scope: APIScope?, _ handler: @escaping Handler
    ) {
        let segments = pattern.split(separator: "/").map { $0 == "{}" ? Segment.parameter : .text(String($0)) }
        precondition(
            !routes.contains { $0.method == method && $0.segments == segments }, "\(method) \(pattern) is served twice")
        routes.append(
            Route(method: method, pattern: pattern, scope: scope, segments: segments, handler: handler))
    }

    /// HEAD is served by the routes of GET. Segments are compared as they were decoded, and nothing is normalised.
    func match(_ method: String, _ path: [String]) -> Match {
        let wanted = method == "HEAD" ? "GET" : method
        var others: [String] = []
        for route in routes {
            guard let parameters = Self.parameters(path, route.segments) else { continue }
            if route.method == wanted { return .found(route, parameters: parameters) }
            others.append(route.method)
        }
        return others.isEmpty ? .nothing : .otherMethod(others)
    }

    private static func parameters(_ path: [String], _ segments: [Segment]) -> [String]? {
        guard path.count == segments.count else { return nil }
        var parameters: [String] = []
        for (part, segment) in zip(path, segments) {
            switch segment {
            case .text(let text): guard part == text else { return nil }
            case .parameter:
                guard !part.isEmpty else { return nil }
                parameters.append(part)
            }
        }
        return parameters
    }
}

extension ServiceRouter.Route {
    func serve(_ call: ServiceCall) {
        do throws(ServiceProblem) {
            try handler(call)
        } catch {
            call.answer(error)
        }
    }
}
