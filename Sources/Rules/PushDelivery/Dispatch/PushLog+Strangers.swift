import Telemetry
import Timekeeping

/// Log lines about servers that phones have chosen. These lines have a limit of their own, because anybody with a phone
/// can cause them (T46.8).
extension PushLog {
    /// Logs the outcome of a push to a server that a phone has chosen.
    mutating func finished(
        _ outcome: PushOutcome, at host: String, of app: PushApp, token: PushToken, tries: Int, now: Instant
    ) {
        let short: KeyValuePairs<LogKey, LogValue> = [
            .provider: .text(app.name), .target: .text(host), .token: .redacted(token.prid),
        ]
        switch outcome {
        case .accepted, .acceptedWithNewToken: log.info("a provider accepted a push", short)
        case .tokenDead: log.info("a provider rejected a push token as dead", short)
        case .noSuitableToken:
            log.info("a push was not sent, because the device has no push token for this kind of push", short)
        case .credentialsRefused(let reason):
            warn("a push server chosen by phones does not accept the daemon's VAPID key", host, reason, of: app, now)
        case .noConnection(let reason):
            warn("the daemon does not connect to a push server chosen by phones", host, reason, of: app, now)
        case .foreignToken(let reason), .payloadRefused(let reason):
            warn("a push server chosen by phones refuses a push", host, reason, of: app, now)
        case .retry, .renewCredential:
            guard let suppressed = strangerLimit.admit(now: now) else { return }
            log.warning(
                "a push failed, and the daemon does not try it again",
                [
                    .provider: .text(app.name), .target: .text(host), .attempt: .number(tries),
                    .token: .redacted(token.prid), .suppressed: .number(suppressed),
                ])
        }
    }

    private mutating func warn(
        _ message: StaticString, _ host: String, _ reason: String, of app: PushApp, _ now: Instant
    ) {
        guard let suppressed = strangerLimit.admit(now: now) else { return }
        log.warning(
            message,
            [
                .provider: .text(app.name), .target: .text(host), .reason: .text(reason),
                .suppressed: .number(suppressed),
            ])
    }

    /// Logs that the circuit breaker of a server that a phone has chosen has opened or closed.
    mutating func breaker(isOpen: Bool, at host: String, of app: PushApp, _ problem: String?, now: Instant) {
        guard isOpen else {
            guard let suppressed = strangerLimit.admit(now: now) else { return }
            return log.notice(
                "a push server chosen by phones can be reached again",
                [.provider: .text(app.name), .target: .text(host), .suppressed: .number(suppressed)])
        }
        warn(
            "a push server chosen by phones cannot be reached, so the daemon tries only one push every five seconds",
            host, problem ?? "the server answers with errors of its own", of: app, now)
    }

    /// Logs that a push was refused, because too many pushes wait for its server, or for servers of its kind.
    mutating func noPlace(for host: String, of app: String, now: Instant) {
        guard let suppressed = strangerLimit.admit(now: now) else { return }
        log.warning(
            "a push was refused, because too many pushes to push servers chosen by phones are active",
            [.provider: .text(app), .target: .text(host), .suppressed: .number(suppressed)])
    }
}
