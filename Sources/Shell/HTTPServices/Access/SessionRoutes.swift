import Addressing
import Crypto
import HTTPSemantics
import HTTPServer
import Reactor
import Telemetry

/// The HTTP routes by which an operator's browser begins and ends a session.
struct SessionRoutes {
    let gate: PageGate
    let keys: APIKeyRing
    let wrongLogins: WrongLogins
    let loop: EventLoop
    let log: Log

    private struct Login: Decodable {
        let key: String
    }

    /// The session as the web page sees it.
    private struct Report: Encodable {
        let name: String
        let isReadOnly: Bool
        let domains: [String]?
        let token: String

        private enum CodingKeys: String, CodingKey { case name, isReadOnly, domains, token }

        func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(name, forKey: .name)
            try container.encode(isReadOnly, forKey: .isReadOnly)
            // A missing list is written as null, by which the web page recognises a key for the whole daemon.
            try container.encode(domains, forKey: .domains)
            try container.encode(token, forKey: .token)
        }
    }

    func register(in router: inout ServiceRouter) {
        // Logins are no changes for the audit log, because logins have their own log lines.
        router.add(
            "POST", "/session", scope: nil, domains: .open, isChange: false, described: .leftOut
        ) { call throws(ServiceProblem) in
            try await begin(call)
        }
        router.add("GET", "/session", scope: nil, domains: .open, described: .leftOut) {
            call throws(ServiceProblem) in
            let (secret, key) = try present(call)
            call.answer(report(key, secret), fields: PageGate.fields)
        }
        router.add(
            "DELETE", "/session", scope: nil, domains: .open, isChange: false, described: .leftOut
        ) { call throws(ServiceProblem) in
            let (secret, key) = try present(call)
            if let problem = gate.refusalOfToken(call.request, secret) { throw problem }
            gate.sessions.end(PageSessions.name(of: secret))
            log.notice(
                "an operator logged out of the web page",
                [.apiKey: .text(key.name), .source: .described(call.request.remote)])
            call.answer(HTTPResponse(status: 204, fields: PageGate.fields + [gate.cookie(nil)]))
        }
    }

    private func begin(_ call: ServiceCall) async throws(ServiceProblem) {
        if let problem = gate.refusal(of: call.request) { throw problem }
        // A form of another web site cannot send `application/json` without a CORS request to this server.
        guard call.request.mediaType == "application/json" else {
            throw ServiceProblem(415, "expected application/json")
        }
        let login = try call.body(as: Login.self, expected: "key")
        guard let key = APIKeySecret(login.key).flatMap({ keys.key(matching: $0) }) else {
            let wait = await wrongLogins.judge([false], from: call.request.remote.address).wait
            gate.loginFailed(call.request, nil, wait == nil ? "the key is unknown" : "too many wrong logins")
            throw wait.map { ServiceProblem.tooManyLogins($0) } ?? ServiceProblem(401, "this key is unknown")
        }
        guard key.scopes.allows(.adminRead) else {
            gate.loginFailed(call.request, key, "the key has neither the scope admin nor admin.read")
            throw ServiceProblem(403, "this key has neither the scope admin nor admin.read")
        }
        if let former = gate.secret(in: call.request) { gate.sessions.end(PageSessions.name(of: former)) }
        guard let secret = gate.sessions.begin(for: key, now: loop.now) else {
            throw ServiceProblem(503, "the system has no random bytes", retryAfter: 5)
        }
        log.notice(
            "an operator logged in to the web page",
            [.apiKey: .text(key.name), .source: .described(call.request.remote)])
        call.answer(report(key, secret), fields: PageGate.fields + [gate.cookie(secret)])
    }

    /// Returns the session that the request's cookie names, and its key.
    private func present(_ call: ServiceCall) throws(ServiceProblem) -> (secret: String, key: APIKey) {
        if let problem = gate.refusal(of: call.request) { throw problem }
        guard let secret = gate.secret(in: call.request),
            case .open(let key) = gate.sessions.use(PageSessions.name(of: secret), now: loop.now)
        else { throw ServiceProblem(401, "no session") }
        return (secret, key)
    }

    private func report(_ key: APIKey, _ secret: String) -> Report {
        Report(
            name: key.name, isReadOnly: !key.scopes.contains(.admin), domains: key.domains.names,
            token: PageSessions.token(of: secret))
    }
}
