import Bytes
import HTTPSemantics
import HTTPServer
import ProxyCore
import ProxyRuntime
import PushDelivery
import Registration

/// Accepts the reports of apps about their tokens and about removed accounts, as Acrobits' apps send them.
///
/// Only the event loop of the shard uses the push token service.
struct PushTokenService {
    let door: ShardDoor
    let form: ReportedTokens.Form

    /// Returns the patterns of the paths to which apps send a report: the daemon's own path and the paths in the
    /// vendor's examples. An operator writes one of the report paths into the settings of an Acrobits app.
    private static func patterns(_ roots: [String]) -> [String] {
        roots.flatMap { root in [root, "\(root)/", "\(root)/{}", "\(root)/{}/", "\(root)/{}/{}", "\(root)/{}/{}/"] }
            + roots.map { "\($0)/{}/{}/{*}" }
    }

    func register(in router: inout ServiceRouter) {
        for pattern in Self.patterns(["/v1/push-tokens", "/token", "/pushToken"]) {
            add(pattern, to: &router, RouteDescription("reportPushTokens", "An app reports its push tokens")) {
                report, call throws(ServiceProblem) in
                try await reported(report, call)
            }
        }
        for pattern in Self.patterns(["/v1/account-removals"]) {
            add(pattern, to: &router, RouteDescription("reportAccountRemoval", "An account was removed from an app")) {
                report, call throws(ServiceProblem) in
                try await removed(report, call)
            }
        }
    }

    private func add(
        _ pattern: String, to router: inout ServiceRouter, _ description: RouteDescription,
        _ handler: @escaping @Sendable (TokenReport, isolated ServiceCall) async throws(ServiceProblem) -> Void
    ) {
        for method in ["GET", "POST"] {
            router.add(
                method, pattern, scope: .tokensReport, domains: .byDomain, isChange: true,
                described: TokenReport.described(description, method: method, pattern: pattern),
                reader: { request, parameters throws(ServiceProblem) in
                    let report = try TokenReport(request, parameters)
                    return ServiceRouter.Reading(login: try login(by: report)) { call throws(ServiceProblem) in
                        try await handler(report, call)
                    }
                })
        }
    }

    /// The user and the password in a report; `nil` if the report has no password.
    private func login(by report: TokenReport) throws(ServiceProblem) -> ServiceRouter.LoginAttempt? {
        guard let password = report.password else { return nil }
        let (user, domain) = try report.account()
        return ServiceRouter.LoginAttempt(user: user, domain: domain, password: password)
    }

    // MARK: Reports

    private func reported(_ report: TokenReport, _ call: ServiceCall) async throws(ServiceProblem) {
        let aor = try await aor(of: report, call)
        let tokens = report.tokens(form)
        // A report without a token gets a successful answer. With an error, the app would not send its report again
        // when it has a token.
        guard !tokens.isEmpty else { return call.answer(HTTPResponse(status: 200)) }
        let device = ReportedDevice(tokens)
        let result = await door.report(of: aor) { engine, ticket, now in
            engine.deviceReported(device, of: aor, ticket, now: now)
        }
        Self.answer(call, result)
    }

    private func removed(_ report: TokenReport, _ call: ServiceCall) async throws(ServiceProblem) {
        let aor = try await aor(of: report, call)
        let tokens = report.tokens(form)
        guard !tokens.selector.isEmpty || !tokens.isEmpty else {
            throw ServiceProblem(400, "expected a selector or a token to identify the device")
        }
        let result = await door.report(of: aor) { engine, ticket, now in
            engine.devicesWithdrawn(.told(tokens), of: aor, ticket, now: now)
        }
        Self.answer(call, result)
    }

    private func aor(of report: TokenReport, _ call: ServiceCall) async throws(ServiceProblem) -> AddressOfRecord {
        let (user, domain) = try report.account()
        let domains = call.domains
        let named = await door.ask(.everything) { engine, _ in engine.aor(of: user, in: domain ?? domains.single) }
        guard let aor = named, domains.permits(aor.host) else {
            throw ServiceProblem(404, "the user's domain is not served here")
        }
        call.changes("\(aor)")
        return aor
    }

    /// Answers a report; the answer to a successful report has neither a body nor a media type.
    private static func answer(_ call: ServiceCall, _ result: ReportResult) {
        switch result {
        case .done: call.answer(HTTPResponse(status: 200))
        case .notSupported(.providerOff):
            call.answer(ServiceProblem(409, "the push service of this token is switched off here"))
        case .notSupported(let problem):
            call.answer(ServiceProblem(422, "the tokens cannot be used", detail: "\(problem.sentence)"))
        case .tooManyDevices: call.answer(ServiceProblem(403, "the user has too many devices"))
        case .malformed:
            call.answer(
                ServiceProblem(
                    422, "the tokens cannot be used",
                    detail: "an app id is missing, the two tokens do not belong together, or they are too long"))
        case .unavailable:
            call.answer(
                ServiceProblem(503, "the report cannot be stored now").response(fields: [HTTPField("Retry-After", "5")])
            )
        }
    }
}
