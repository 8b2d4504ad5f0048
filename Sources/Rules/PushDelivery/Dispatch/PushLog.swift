import Telemetry
import Timekeeping

/// Records the outcomes of pushes in counters and in the log. A failing provider could cause a message for every push,
/// so such messages are logged at a limited rate.
struct PushLog {
    var figures = CounterSet()
    private let log: Log
    private var limit = LogRateLimit()

    init(_ log: Log) { self.log = log }

    /// A push has ended with this outcome. `payload` is its redacted contents.
    mutating func finished(
        _ outcome: PushOutcome, of app: PushApp, token: PushToken, tries: Int, now: Instant,
        payload: @autoclosure () -> String
    ) {
        let app = LogValue.text(app.name)
        switch outcome {
        case .accepted, .acceptedWithNewToken:
            log.info("push accepted", [.provider: app, .token: .redacted(token.prid)])
        case .tokenDead:
            log.info("push token is dead", [.provider: app, .token: .redacted(token.prid)])
        case .noSuitableToken:
            log.info("the device has no token for this kind of push", [.provider: app, .token: .redacted(token.prid)])
        case .credentialsRefused(let reason):
            guard let suppressed = limit.admit(now: now) else { return }
            log.error(
                "push provider does not accept our credentials",
                [
                    .provider: app, .reason: .text(reason), .token: .redacted(token.prid),
                    .suppressed: .number(suppressed),
                ])
        case .foreignToken(let reason):
            guard let suppressed = limit.admit(now: now) else { return }
            log.warning(
                "push token belongs to another app",
                [
                    .provider: app, .reason: .text(reason), .token: .redacted(token.prid),
                    .suppressed: .number(suppressed),
                ])
        case .noConnection(let reason):
            guard let suppressed = limit.admit(now: now) else { return }
            log.error(
                "cannot connect to the push provider with these settings",
                [
                    .provider: app, .reason: .text(reason), .token: .redacted(token.prid),
                    .suppressed: .number(suppressed),
                ])
        case .payloadRefused(let reason):
            guard let suppressed = limit.admit(now: now) else { return }
            log.error(
                "push provider does not accept the message",
                [
                    .provider: app, .reason: .text(reason), .token: .redacted(token.prid), .payload: .text(payload()),
                    .suppressed: .number(suppressed),
                ])
        case .retry, .renewCredential:
            guard let suppressed = limit.admit(now: now) else { return }
            log.warning(
                "push failed",
                [
                    .provider: app, .attempt: .number(tries), .token: .redacted(token.prid),
                    .suppressed: .number(suppressed),
                ])
        }
    }

    /// The breaker of a provider opened or closed. A breaker opens at most once in five seconds.
    mutating func breaker(isOpen: Bool, to app: PushApp, _ problem: String?) {
        if isOpen {
            log.warning(
                "push provider cannot be reached, one push every five seconds tests it",
                [.provider: .text(app.name), .reason: .text(problem ?? "it answers with errors of its own")])
        } else {
            log.notice("push provider can be reached again", [.provider: .text(app.name)])
        }
    }

    mutating func notReached(_ app: PushApp, _ problem: String, now: Instant) {
        guard let suppressed = limit.admit(now: now) else { return }
        log.warning(
            "push provider not reached",
            [.provider: .text(app.name), .reason: .text(problem), .suppressed: .number(suppressed)])
    }
}
