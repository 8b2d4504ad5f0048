import Bytes
package import HTTPServer
import Persistence
import Registration

/// Which handler serves which method and path. Each service registers its routes before the listener starts.
package struct ServiceRouter {
    /// The words that may stand before a key in `Authorization`.
    package enum AuthorizationSchemes: Hashable, Sendable {
        /// RFC 6750.
        case bearer
        /// The same, and `Token` and `AppToken` as the 10darts platform has them.
        case bearerOrToken

        func contains(_ scheme: some StringProtocol) -> Bool {
            switch scheme.lowercased() {
            case "bearer": true
            case "token", "apptoken": self == .bearerOrToken
            default: false
            }
        }
    }

    /// Runs on the loop. What it throws is answered; otherwise it answers the call itself.
    package typealias Handler = @Sendable (isolated ServiceCall) async throws(ServiceProblem) -> Void

    package struct Route: Sendable {
        package let method: String
        /// As it was registered, for logs.
        package let pattern: String
        /// What a key must be allowed; `nil`: no key is asked for.
        package let scope: APIScope?
        let schemes: AuthorizationSchemes
        /// Requests change something, or try to: they are logged.
        package let isChange: Bool
        /// A user's password may stand in place of a key.
        let takesPassword: Bool
        /// Its body shows a token in place of a key: whoever was wrong too often is not heard.
        let showsToken: Bool
        /// What `/openapi.json` says of the route.
        let description: RouteDescription?
        let segments: [Segment]
        let read: Reader
    }

    /// Reads a request before it is known who asks. Called on the loop.
    package typealias Reader = @Sendable (HTTPRequest, _ parameters: [String]) throws(ServiceProblem) -> Reading

    package struct Reading {
        /// Who the request claims to come from, when it shows a password in place of a key.
        let login: LoginAttempt?
        /// Serves the request, and knows what was read of it.
        let handler: Handler
    }

    package struct LoginAttempt: Sendable {
        let user: ByteString
        /// `nil`: our first.
        let domain: ByteString?
        let password: ByteString
    }

    enum Segment: Hashable {
        /// Empty for a `/` at the end.
        case text(String)
        case parameter
        /// One or more segments, with the slashes between them; the last one.
        case rest

        var isParameter: Bool { self == .parameter || self == .rest }
    }

    package enum Match {
        case found(Route, parameters: [String])
        /// The path is served, with these methods only.
        case otherMethod([String])
        case nothing
    }

    private(set) var routes: [Route] = []
    /// Places in ``routes`` by the first segment, which is a text in all of them.
    private var places: [String: [Int]] = [:]

    package init() {}

    /// Adds a route.
    ///
    /// - Parameters:
    ///   - method: `GET`, `POST` or another.
    ///   - pattern: in it `{}` stands for one whole segment of any text but the empty one, and `{*}` at its end for all
    ///     that follows, but not as the first one: `/v1/users/{}/bucket`. A `/` at its end must be there.
    ///   - scope: what a key must be allowed; `nil`: no key is asked for.
    ///   - schemes: how a key may be shown.
    ///   - isChange: without it everything but GET is.
    ///   - showsToken: the body shows a token in place of a key; the handler judges it and counts the wrong ones.
    ///   - description: what `/openapi.json` tells of it; it names as many path parameters as the pattern has.
    ///   - handler: serves it.
    package mutating func add(
        _ method: String, _ pattern: String, scope: APIScope?, schemes: AuthorizationSchemes = .bearer,
        isChange: Bool? = nil, showsToken: Bool = false, described description: RouteDescription? = nil,
        _ handler: @escaping Handler
    ) {
        add(
            method, pattern, scope: scope, schemes: schemes, isChange: isChange, takesPassword: false,
            showsToken: showsToken, described: description, reader: { _, _ in Reading(login: nil, handler: handler) })
    }

    /// The same for requests that may show a password, and are read for it.
    package mutating func add(
        _ method: String, _ pattern: String, scope: APIScope?, schemes: AuthorizationSchemes = .bearer,
        isChange: Bool? = nil, takesPassword: Bool = true, showsToken: Bool = false,
        described description: RouteDescription? = nil, reader: @escaping Reader
    ) {
        let segments = pattern.split(separator: "/", omittingEmptySubsequences: false).dropFirst().map { text in
            text == "{}" ? Segment.parameter : text == "{*}" ? .rest : .text(String(text))
        }
        precondition(
            !routes.contains { $0.method == method && $0.segments == segments }, "\(method) \(pattern) is served twice")
        precondition(
            description.map { $0.parameters.count { $0.place == .path } == segments.count(where: \.isParameter) }
                ?? true,
            "the description of \(method) \(pattern) names other parameters")
        guard case .text(let root) = segments.first else { preconditionFailure("\(pattern) begins with no text") }
        places[root, default: []].append(routes.count)
        routes.append(
            Route(
                method: method, pattern: pattern, scope: scope, schemes: schemes,
                isChange: isChange ?? (method != "GET"), takesPassword: takesPassword, showsToken: showsToken,
                description: description, segments: segments, read: reader))
    }

    /// HEAD is served by the routes of GET, unless they change something. Segments are compared as they were decoded, and
    /// nothing is normalised. A path that is named as it is, is no other's parameter (OpenAPI 3.1 section 4.8.8).
    package func match(_ method: String, _ path: [String]) -> Match {
        let wanted = method == "HEAD" ? "GET" : method
        // Routes are not copied before one is chosen: there are many, and each holds much.
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
                // What a token may hold, and no more.
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
    /// No direction, no separator, no control character, and nothing that was no UTF-8; it may be empty.
    package func isPlain(allowingSlash: Bool) -> Bool {
        self != "." && self != ".."
            && unicodeScalars.allSatisfy { scalar in
                scalar.value >= 0x20 && scalar.value != 0x7f && (allowingSlash || scalar != "/") && scalar != "\\"
                    && scalar != "\u{fffd}"
            }
    }
}

extension ServiceRouter.Route {
    /// Whether nobody could read a path that matched as another one. What a `{*}` takes was looked at already.
    func isPlain(_ path: [String]) -> Bool {
        for (part, segment) in zip(path, segments) {
            if segment == .rest { return true }
            guard part.isPlain(allowingSlash: false), !part.isEmpty || segment == .text("") else { return false }
        }
        return true
    }

    /// For callers who are known without a login.
    package func serve(_ call: ServiceCall) async {
        do throws(ServiceProblem) {
            await call.serve(by: try read(call.request, call.parameters).handler)
        } catch {
            call.answer(error)
        }
    }
}
