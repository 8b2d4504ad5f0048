import Bytes
package import HTTPServer
import Persistence
import Registration

/// Maps methods and paths to handlers. Each service registers its HTTP routes before the listener starts.
package struct ServiceRouter {
    /// The authentication schemes that an HTTP route accepts before a key in `Authorization`.
    package enum AuthorizationSchemes: Hashable, Sendable {
        /// The HTTP route accepts only `Bearer` (RFC 6750).
        case bearer
        /// The HTTP route accepts `Bearer`, and also `Token` and `AppToken`, which clients of the 10darts platform
        /// send.
        case bearerOrToken

        func contains(_ scheme: some StringProtocol) -> Bool {
            switch scheme.lowercased() {
            case "bearer": true
            case "token", "apptoken": self == .bearerOrToken
            default: false
            }
        }
    }

    /// Handles an HTTP request on the event loop's thread. If the handler throws a problem, the problem is the answer;
    /// otherwise the handler answers the request, immediately or later.
    package typealias Handler = @Sendable (isolated ServiceCall) async throws(ServiceProblem) -> Void

    package struct Route: Sendable {
        package let method: String
        /// The path of the HTTP route with its parameters, for logs.
        package let pattern: String
        /// The scope that a key must have; `nil` if no key is required.
        package let scope: APIScope?
        /// How the HTTP route treats keys that name domains.
        package let domains: DomainRule
        let schemes: AuthorizationSchemes
        /// Whether requests may change something, so that they are in the audit log.
        package let isChange: Bool
        /// Whether the HTTP route accepts a user's password instead of a key.
        let takesPassword: Bool
        /// Whether the body contains a token instead of a key. After too many wrong tokens of a source, its requests
        /// are refused before the handler is called.
        let showsToken: Bool
        /// The HTTP route's entry in `/openapi.json`.
        let description: RouteDescription?
        let segments: [Segment]
        let read: Reader
    }

    /// Reads a request on the loop, before the daemon knows the sender.
    package typealias Reader = @Sendable (HTTPRequest, _ parameters: [String]) throws(ServiceProblem) -> Reading

    package struct Reading {
        /// The user and the password in the request; `nil` if the request has no password.
        let login: LoginAttempt?
        /// Serves the request, with the values that the reader found.
        let handler: Handler
    }

    package struct LoginAttempt: Sendable {
        let user: ByteString
        /// The user's domain; `nil` for the first of the daemon's domains.
        let domain: ByteString?
        let password: ByteString
    }

    enum Segment: Hashable {
        /// A segment of the path that must equal the given text. An empty text at the end of a pattern requires a `/`
        /// at the end of the path.
        case text(String)
        case parameter
        /// The rest of the path: one or more segments, with the slashes between them. The placeholder `{*}` is allowed
        /// only at the end of a pattern.
        case rest

        var isParameter: Bool { self == .parameter || self == .rest }
    }

    package enum Match {
        case found(Route, parameters: [String])
        /// The path exists, but only for the listed methods.
        case otherMethod([String])
        case nothing
    }

    private(set) var routes: [Route] = []
    /// For the first segment of each path, the indices of its HTTP routes in ``routes``. The first segment of a route
    /// is always a fixed text.
    private var places: [String: [Int]] = [:]

    package init() {}

    /// Adds an HTTP route.
    ///
    /// - Parameters:
    ///   - method: the HTTP method, such as `GET` or `POST`.
    ///   - pattern: a path such as `/v1/users/{}/bucket`; `{}` matches one whole segment that is not empty, and `{*}`
    ///     matches the rest of the path. A pattern may have `{*}` only at its end, but not as the first segment. If a
    ///     pattern ends with `/`, the path must end with `/` too.
    ///   - scope: the scope that a key must have; `nil` if no key is required.
    ///   - domains: how the HTTP route treats keys that name domains.
    ///   - schemes: the authentication schemes that may precede a key.
    ///   - isChange: whether requests change something; by default, all methods except GET do.
    ///   - showsToken: whether the body contains a token instead of a key; the handler then checks the token and counts
    ///     wrong tokens.
    ///   - description: the entry in `/openapi.json`, which names as many path parameters as the pattern has.
    ///   - handler: the function that serves the request.
    package mutating func add(
        _ method: String, _ pattern: String, scope: APIScope?, domains: DomainRule,
        schemes: AuthorizationSchemes = .bearer,
        isChange: Bool? = nil, showsToken: Bool = false, described description: RouteDescription? = nil,
        _ handler: @escaping Handler
    ) {
        add(
            method, pattern, scope: scope, domains: domains, schemes: schemes, isChange: isChange, takesPassword: false,
            showsToken: showsToken, described: description, reader: { _, _ in Reading(login: nil, handler: handler) })
    }

    /// Adds an operators' route. A GET needs a key with the scope `admin.read`; all other methods need `admin`.
    package mutating func add(
        _ method: String, _ pattern: String, domains: DomainRule = .byDomain, _ description: RouteDescription,
        _ handler: @escaping Handler
    ) {
        add(
            method, pattern, scope: method == "GET" ? .adminRead : .admin, domains: domains, described: description,
            handler)
    }

    /// Adds an HTTP route that reads each request before the sender is known, because the request may contain a
    /// password.
    package mutating func add(
        _ method: String, _ pattern: String, scope: APIScope?, domains: DomainRule,
        schemes: AuthorizationSchemes = .bearer,
        isChange: Bool? = nil, takesPassword: Bool = true, showsToken: Bool = false,
        described description: RouteDescription? = nil, reader: @escaping Reader
    ) {
        let parts = pattern == "/" ? [] : pattern.split(separator: "/", omittingEmptySubsequences: false).dropFirst()
        let segments = parts.map { text in
            text == "{}" ? Segment.parameter : text == "{*}" ? .rest : .text(String(text))
        }
        precondition(
            !routes.contains { $0.method == method && $0.segments == segments }, "\(method) \(pattern) is served twice")
        precondition(
            description.map { $0.parameters.count { $0.place == .path } == segments.count(where: \.isParameter) }
                ?? true,
            "the description of \(method) \(pattern) has other path parameters than the pattern")
        precondition((scope == nil) == (domains == .open), "the route \(pattern) either needs a key or is open")
        // The path `/` has no segments.
        guard case .text(let root) = segments.first ?? .text("") else {
            preconditionFailure("\(pattern) begins with no text")
        }
        places[root, default: []].append(routes.count)
        routes.append(
            Route(
                method: method, pattern: pattern, scope: scope, domains: domains, schemes: schemes,
                isChange: isChange ?? (method != "GET"), takesPassword: takesPassword, showsToken: showsToken,
                description: description, segments: segments, read: reader))
    }

    /// Finds the HTTP route of a path whose segments are already decoded; the path is not normalised. A route without
    /// parameters has priority over a route with parameters (OpenAPI 3.1 section 4.8.8). A GET route also serves HEAD,
    /// unless its requests change something.
    package func match(_ method: String, _ path: [String]) -> Match {
        let wanted = method == "HEAD" ? "GET" : method
        // Indices are collected, because copying the large routes would cost time.
        var fitting: [(place: Int, parameters: [String])] = []
        for place in places[path.first ?? ""] ?? [] {
            if let parameters = Self.parameters(path, routes[place].segments) { fitting.append((place, parameters)) }
        }
        if fitting.contains(where: \.parameters.isEmpty) { fitting.removeAll { !$0.parameters.isEmpty } }
        for (place, parameters) in fitting
        where routes[place].method == wanted && (method == wanted || !routes[place].isChange) {
            return .found(routes[place], parameters: parameters)
        }
        let others = fitting.map { routes[$0.place] }.filter { $0.description?.isLeftOut != true }.map(\.method)
        return others.isEmpty ? .nothing : .otherMethod(others)
    }

    private static func parameters(_ path: [String], _ segments: [Segment]) -> [String]? {
        let hasRest = segments.last == .rest
        guard hasRest ? path.count >= segments.count : path.count == segments.count else { return nil }
        var parameters: [String] = []
        for (index, segment) in segments.enumerated() {
            let part = path[index]
            if case .rest = segment {
                let rest = path[index...]
                // The part of the path for `{*}` may contain only characters of tokens.
                guard rest.contains(where: { !$0.isEmpty }), rest.allSatisfy({ $0.isPlain(allowingSlash: true) })
                else { return nil }
                parameters.append(rest.joined(separator: "/"))
                return parameters
            }
            switch segment {
            case .text(let text): guard part == text else { return nil }
            case .parameter, .rest:
                guard !part.isEmpty else { return nil }
                parameters.append(part)
            }
        }
        return parameters
    }
}

extension String {
    /// Whether a path segment is neither `.` nor `..`, and has no separator and no control character. A segment with
    /// U+FFFD is refused too, because U+FFFD replaces bytes that are not UTF-8. An empty path segment is treated as
    /// plain.
    package func isPlain(allowingSlash: Bool) -> Bool {
        self != "." && self != ".."
            && unicodeScalars.allSatisfy { scalar in
                scalar.value >= 0x20 && scalar.value != 0x7f && (allowingSlash || scalar != "/") && scalar != "\\"
                    && scalar != "\u{fffd}"
            }
    }
}

extension ServiceRouter.Route {
    /// Whether all programs read the path in the same way. The part for `{*}` was checked when the route was found.
    func isPlain(_ path: [String]) -> Bool {
        for (part, segment) in zip(path, segments) {
            if segment == .rest { return true }
            guard part.isPlain(allowingSlash: false), !part.isEmpty || segment == .text("") else { return false }
        }
        return true
    }

    /// Serves a request whose sender needs no login, for example over the control socket.
    package func serve(_ call: ServiceCall) async {
        do throws(ServiceProblem) {
            await call.serve(by: try read(call.request, call.parameters).handler)
        } catch {
            call.answer(error)
        }
    }
}
