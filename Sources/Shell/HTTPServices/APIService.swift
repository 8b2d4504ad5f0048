package import Addressing
import Bytes
import Crypto
import HTTPSemantics
import HTTPServer
package import ProxyRuntime
package import Reactor
import Registration
package import Telemetry

/// A listener of the HTTP API or the admin API; it finds each request's route, checks the key, and writes the audit
/// log.
///
/// Services register their routes in ``router`` before ``listen()`` is called.
///
/// - The class is `@unchecked Sendable`, because only the shard's loop uses it.
package final class APIService: @unchecked Sendable {
    package var router = ServiceRouter()

    private let access: ServiceAccess
    private let loop: EventLoop
    private let keys: APIKeyRing
    private let log: Log
    private var listener: HTTPListener?
    private var webSockets: (path: [String], upgrade: WebSocketUpgrade)?
    private var refusals = LogRateLimit()
    package let wrongLogins: WrongLogins
    /// Decides about the requests of browsers; `nil` for a service without a web page.
    package private(set) var gate: PageGate?
    /// Decides which requests are refused during overload, before any other check.
    package var load = ServiceLoad()

    /// The listening addresses, with the ports that the system chose for port 0.
    private(set) package var endpoints: [Endpoint] = []

    package init(_ access: ServiceAccess, loop: EventLoop, keys: APIKeyRing, log: Log) {
        self.access = access
        self.loop = loop
        self.keys = keys
        self.log = log
        wrongLogins = WrongLogins(
            perSource: access.wrongLoginsPerSource, perUser: access.wrongLoginsPerUser, loop: loop)
    }

    /// Accepts WebSockets at the given path; the path must not be the path of an HTTP route. ``takesWebSockets(at:_:)``
    /// must be called before ``listen()``.
    package func takesWebSockets(at path: String, _ upgrade: WebSocketUpgrade) {
        webSockets = (path.split(separator: "/").map(String.init), upgrade)
    }

    /// Offers sessions for the operators' web page under the given host names; must be called before ``listen()``.
    package func offersPage(under names: [String]) -> PageGate {
        let gate = PageGate(names: names, usesTLS: access.certFile != nil, keys: keys, loop: loop, log: log)
        self.gate = gate
        SessionRoutes(gate: gate, keys: keys, wrongLogins: wrongLogins, loop: loop, log: log)
            .register(in: &router)
        return gate
    }

    package func listen() throws(StartError) {
        guard !access.listen.isEmpty else { return }
        router.addDocument(title: access.name == "api" ? "sippushd" : "sippushd, for operators")
        let tls = try makeTLS()
        var place = access.name
        do throws(SystemError) {
            let loop = loop
            let listener = try HTTPListener(on: loop, limits: access.limits) { [weak self] request, reply in
                if let (path, upgrade) = self?.webSockets, request.path == path {
                    return upgrade.answer(request, reply)
                }
                if let seconds = self?.load.refusal(of: request) {
                    return reply.send(ServiceProblem(503, "the daemon is overloaded", retryAfter: seconds).response())
                }
                loop.startTask { [weak self] _ in await self?.serve(request, reply) }
            }
            for endpoint in access.listen {
                place = "\(endpoint), of \(access.name).listen"
                endpoints.append(try listener.listen(on: endpoint, tls: tls))
            }
            self.listener = listener
        } catch {
            throw .cannotListen(on: place, error)
        }
        let list = endpoints.map(\.description).joined(separator: " ")
        log.notice(
            "the API accepts requests",
            [
                .setting: .text(access.name), .listener: .text(list),
                .transport: .text(tls == nil ? "http" : "https"),
            ])
        if tls == nil, endpoints.contains(where: { !$0.address.isLoopback }) {
            log.warning(
                "the API accepts API keys without TLS, so others can read the keys",
                [.setting: .text(access.name), .listener: .text(list)])
        }
    }

    private func makeTLS() throws(StartError) -> TLSContext? {
        guard let certFile = access.certFile, let keyFile = access.keyFile else { return nil }
        do throws(TLSError) {
            return try TLSContext.server(
                certificate: .file(certFile), key: .file(keyFile), protocols: ["http/1.1"])
        } catch {
            throw StartError("\(access.name).cert-file: \(error)")
        }
    }

    /// Reads the API's certificate and its key again, for new connections. If a file cannot be used, the old
    /// certificate stays in use, and the log reports the failure.
    package func reloadCertificate() {
        do throws(StartError) {
            guard let listener, let tls = try makeTLS() else { return }
            listener.replaceTLS(tls)
        } catch {
            log.error(
                "the certificate was not reloaded, so the old certificate stays in use",
                [.reason: .text(error.description)])
        }
    }

    func close() { listener?.close() }

    package var figures: CounterSet {
        var figures = CounterSet()
        figures.count(.httpRequest, by: listener?.requestCount ?? 0)
        figures.count(.httpRefused, by: listener?.refusedCount ?? 0)
        return figures
    }

    // MARK: Requests

    private func serve(_ request: HTTPRequest, _ reply: HTTPReply) async {
        let match = router.match(request.method, request.path)
        // A path that another program could read differently is refused (T16). In a path, only the part for `{*}` can
        // contain encoded slashes.
        let isPlain =
            if case .found(let route, _) = match { route.isPlain(request.path) } else { request.hasPlainPathAndEnd }
        guard isPlain else { return reply.send(ServiceProblem(400, "the path is not plain").response()) }
        switch match {
        case .nothing: reply.send(ServiceProblem(404, "no such resource").response())
        case .otherMethod(let methods):
            reply.send(
                ServiceProblem(405, "the path does not support this method").response(fields: [
                    HTTPField("Allow", methods.joined(separator: ", "))
                ]))
        case .found(let route, let parameters):
            do throws(ServiceProblem) {
                let reading = try route.read(request, parameters)
                switch await admit(request, reading.login, to: route) {
                case .caller(let admission):
                    await serve(request, parameters, route, reading.handler, admission, reply)
                case .refusal(let response): reply.send(response)
                }
            } catch {
                reply.send(error.response())
            }
        }
    }

    private func serve(
        _ request: HTTPRequest, _ parameters: [String], _ route: ServiceRouter.Route,
        _ handler: ServiceRouter.Handler, _ admission: Admission, _ reply: HTTPReply
    ) async {
        let audit = route.isChange ? route.audit(admission.caller.name, request, log) : { @Sendable _, _ in }
        await ServiceCall(
            request, parameters, from: admission.caller, reply, in: admission.domains, on: loop,
            fields: admission.fields, ending: admission.ending, answered: audit
        ).serve(by: handler)
    }

    // MARK: Keys

    private enum Verdict {
        case caller(Admission)
        case refusal(HTTPResponse)

        static func caller(_ caller: ServiceCaller, _ domains: DomainScope) -> Verdict {
            .caller(Admission(caller: caller, domains: domains))
        }
    }

    private struct Admission {
        let caller: ServiceCaller
        let domains: DomainScope
        /// The header fields of each answer.
        var fields: [HTTPField] = []
        /// Returns why the caller may no longer read an answer: see ``ServiceCall/ending``.
        var ending: @Sendable () -> CallerEnd? = { nil }
    }

    private func admit(
        _ request: HTTPRequest, _ login: ServiceRouter.LoginAttempt?, to route: ServiceRouter.Route
    ) async -> Verdict {
        let source = request.remote.address
        if route.showsToken, let wait = await wrongLogins.judge(from: source).wait {
            return refuse(request, route, after: wait)
        }
        if let login { return await judge(login, request, route) }
        guard let scope = route.scope else { return .caller(.anyone, .wholeDaemon) }
        let values = request.fields.filter { $0.name.lowercased() == "authorization" }.map(\.value)
        guard let value = values.first else {
            if let gate, let secret = gate.secret(in: request) { return admit(request, secret, gate, to: route, scope) }
            return refuse(request, route, 401, "a key is required", challenge: "Bearer realm=\"sippushd\"")
        }
        // A request with two `Authorization` fields is refused, because programs differ in which field they use.
        guard values.count == 1, let secret = Self.secret(value, route.schemes), let key = keys.key(matching: secret)
        else {
            // A correct key is accepted even after many unknown keys from the same address. Keys cannot be guessed, and
            // many clients may share the address of a proxy.
            if let wait = await wrongLogins.judge([false], from: source).wait {
                return refuse(request, route, after: wait)
            }
            return refuse(
                request, route, 401, "this key is unknown",
                challenge: "Bearer realm=\"sippushd\", error=\"invalid_token\"")
        }
        let (name, hash) = (key.name, key.hash)
        var admission = Admission(caller: .key(name), domains: key.domains)
        admission.ending = { [keys] in keys[name]?.hash == hash ? nil : .keyRemoved }
        return admit(request, admission, key, to: route, scope)
    }

    /// Checks whether the key may use the HTTP route.
    private func admit(
        _ request: HTTPRequest, _ admission: Admission, _ key: APIKey, to route: ServiceRouter.Route, _ scope: APIScope
    ) -> Verdict {
        guard key.scopes.allows(scope) else {
            if route.isChange { route.audit(key.name, request, log)(403, AuditedChange()) }
            return refuse(
                request, route, 403, "this key lacks the scope for this request",
                challenge: "Bearer realm=\"sippushd\", error=\"insufficient_scope\", scope=\"\(scope.rawValue)\"")
        }
        guard key.domains == .wholeDaemon || route.domains == .byDomain else {
            if route.isChange { route.audit(key.name, request, log)(403, AuditedChange()) }
            noteRefusal(request, route, 403)
            return .refusal(ServiceProblem.forWholeDaemon.response())
        }
        return .caller(admission)
    }

    /// Checks a request with a session cookie.
    private func admit(
        _ request: HTTPRequest, _ secret: String, _ gate: PageGate, to route: ServiceRouter.Route, _ scope: APIScope
    ) -> Verdict {
        if let problem = gate.refusal(of: request) { return .refusal(problem.response(fields: PageGate.fields)) }
        let (name, loop) = (PageSessions.name(of: secret), loop)
        guard case .open(let key) = gate.sessions.use(name, now: loop.now) else {
            noteRefusal(request, route, 401)
            return .refusal(ServiceProblem(401, "the session has ended").response(fields: PageGate.fields))
        }
        if route.isChange, let problem = gate.refusalOfToken(request, secret) {
            route.audit(key.name, request, log)(403, AuditedChange())
            return .refusal(problem.response(fields: PageGate.fields))
        }
        var admission = Admission(caller: .key(key.name), domains: key.domains, fields: PageGate.fields)
        admission.ending = {
            // An open stream of events is treated as use of the session.
            guard gate.refusalOfHost(request) == nil else { return .sessionEnded }
            return switch gate.sessions.use(name, now: loop.now) {
            case .open: nil
            case .ended: .sessionEnded
            case .keyRemoved: .keyRemoved
            }
        }
        return admit(request, admission, key, to: route, scope)
    }

    /// Checks a user's password. Above the limit of wrong logins, even a right password is refused, because passwords
    /// can be guessed.
    private func judge(
        _ attempt: ServiceRouter.LoginAttempt, _ request: HTTPRequest, _ route: ServiceRouter.Route
    ) async -> Verdict {
        switch await wrongLogins.verdict(on: attempt, from: request.remote.address) {
        case .right(let user): .caller(.user("\(user)"), .only([user.host]))
        case .wrong:
            refuse(request, route, 401, "user or password is wrong", challenge: "Bearer realm=\"sippushd\"")
        case .refused(let wait): refuse(request, route, after: wait)
        case .unavailable: unavailable(request, route)
        }
    }

    /// Returns the key in an `Authorization` value, after `Bearer` (RFC 6750 section 2.1) or another scheme that the
    /// HTTP route accepts.
    private static func secret(_ value: String, _ schemes: ServiceRouter.AuthorizationSchemes) -> APIKeySecret? {
        let words = value.utf8.split(separator: UInt8(ascii: " "))
        guard words.count == 2, schemes.contains(Substring(words[0])) else { return nil }
        return APIKeySecret(Substring(words[1]))
    }

    private func refuse(
        _ request: HTTPRequest, _ route: ServiceRouter.Route, _ status: Int, _ title: String, challenge: String
    ) -> Verdict {
        noteRefusal(request, route, status)
        return .refusal(
            ServiceProblem(status, title).response(fields: [HTTPField("WWW-Authenticate", challenge)]))
    }

    private func refuse(_ request: HTTPRequest, _ route: ServiceRouter.Route, after wait: Duration) -> Verdict {
        noteRefusal(request, route, 429)
        return .refusal(ServiceProblem.tooManyLogins(wait).response())
    }

    private func unavailable(_ request: HTTPRequest, _ route: ServiceRouter.Route) -> Verdict {
        noteRefusal(request, route, 503)
        return .refusal(ServiceProblem(503, "no source of users answers now", retryAfter: 5).response())
    }

    private func noteRefusal(_ request: HTTPRequest, _ route: ServiceRouter.Route, _ status: Int) {
        guard let suppressed = refusals.admit(now: loop.now) else { return }
        log.info(
            "an API request was refused",
            [
                .source: .described(request.remote), .method: .text(route.method), .route: .text(route.pattern),
                .status: .number(status), .suppressed: .number(suppressed),
            ])
    }
}

extension HTTPRequest {
    /// Whether each segment of the path is plain: not empty, not `.` or `..`, and without encoded separators and
    /// control characters. A slash at the end of the path is allowed.
    var hasPlainPathAndEnd: Bool {
        let segments = path.last == "" ? path.dropLast() : path[...]
        return segments.allSatisfy { !$0.isEmpty && $0.isPlain(allowingSlash: false) }
    }
}
