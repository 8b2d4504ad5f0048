import Telemetry
import Timekeeping

/// Counts and logs the outcomes of pushes. Log lines have a rate limit, because a failing provider could cause a log
/// line for every push.
struct PushLog {
    var figures = CounterSet()
    let log: Log
    /// The limits of the lines about each app. A provider that fails must not suppress the lines about other providers.
    private var limits: [String: LogRateLimit] = [:]
    /// The limits of the lines about refused credentials, for each app. Each push of an app meets the same refusal, so
    /// one line a minute is enough.
    private var credentialLimits: [String: LogRateLimit] = [:]
    /// The limit of the lines about hosts that phones have chosen. Such lines must not suppress lines about providers.
    var strangerLimit = LogRateLimit()

    init(_ log: Log) { self.log = log }

    /// Counts and logs the outcome of an ended push. The parameter `payload` is the push's content without secrets.
    mutating func finished(
        _ outcome: PushOutcome, of server: PushServer, token: PushToken, tries: Int, now: Instant,
        payload: @autoclosure () -> String
    ) {
        if let host = server.chosenHost {
            return finished(outcome, at: host, of: server.app, token: token, tries: tries, now: now)
        }
        let app = LogValue.text(server.app.name)
        switch outcome {
        case .accepted, .acceptedWithNewToken:
            log.info("a provider accepted a push", [.provider: app, .token: .redacted(token.prid)])
        case .tokenDead:
            log.info("a provider rejected a push token as dead", [.provider: app, .token: .redacted(token.prid)])
        case .noSuitableToken:
            log.info(
                "a push was not sent, because the device has no push token for this kind of push",
                [.provider: app, .token: .redacted(token.prid)])
        case .credentialsRefused(let reason):
            let suppressed = credentialLimits[
                server.app.name, default: LogRateLimit(burst: 1, per: .seconds(60))
            ].admit(now: now)
            guard let suppressed else { return }
            log.error(
                "the push provider does not accept our credentials",
                [
                    .provider: app, .reason: .text(reason), .token: .redacted(token.prid),
                    .suppressed: .number(suppressed),
                ])
        case .foreignToken(let reason):
            guard let suppressed = admit(server.app, now: now) else { return }
            log.warning(
                "the push provider says that the push token belongs to another app",
                [
                    .provider: app, .reason: .text(reason), .token: .redacted(token.prid),
                    .suppressed: .number(suppressed),
                ])
        case .noConnection(let reason):
            guard let suppressed = admit(server.app, now: now) else { return }
            log.error(
                "the daemon cannot connect to the push provider: correct the settings of the app",
                [
                    .provider: app, .reason: .text(reason), .token: .redacted(token.prid),
                    .suppressed: .number(suppressed),
                ])
        case .payloadRefused(let reason):
            guard let suppressed = admit(server.app, now: now) else { return }
            log.error(
                "the push provider rejects the content of a push",
                [
                    .provider: app, .reason: .text(reason), .token: .redacted(token.prid), .payload: .text(payload()),
                    .suppressed: .number(suppressed),
                ])
        case .retry, .renewCredential:
            guard let suppressed = admit(server.app, now: now) else { return }
            log.warning(
                "a push failed, and the daemon does not try it again",
                [
                    .provider: app, .attempt: .number(tries), .token: .redacted(token.prid),
                    .suppressed: .number(suppressed),
                ])
        }
    }

    /// Logs that the circuit breaker of a provider has opened or closed. A breaker opens at most once in five seconds.
    mutating func breaker(isOpen: Bool, to server: PushServer, _ problem: String?, now: Instant) {
        let app = server.app
        if let host = server.chosenHost {
            return breaker(isOpen: isOpen, at: host, of: app, problem, now: now)
        }
        if isOpen {
            log.warning(
                "the push provider cannot be reached, so the daemon tries only one push every five seconds",
                [.provider: .text(app.name), .reason: .text(problem ?? "the provider answers with errors of its own")])
        } else {
            log.notice("the push provider can be reached again", [.provider: .text(app.name)])
        }
    }

    mutating func notReached(_ server: PushServer, _ problem: String, now: Instant) {
        let app = server.app
        let suppressed = server.chosenHost == nil ? admit(app, now: now) : strangerLimit.admit(now: now)
        guard let suppressed else { return }
        log.warning(
            "a request to the push provider got no answer",
            [.provider: .text(app.name), .reason: .text(problem), .suppressed: .number(suppressed)])
    }

    private mutating func admit(_ app: PushApp, now: Instant) -> Int? {
        limits[app.name, default: LogRateLimit()].admit(now: now)
    }
}
