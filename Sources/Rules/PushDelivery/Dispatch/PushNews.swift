import Timekeeping

/// A change of a push app that the operator's receiver of events gets.
package enum PushNews: Hashable, Sendable {
    /// The provider refused the credentials of the app, for the given reason.
    case credentialsRefused(app: String, reason: String)
    /// The provider accepted a push of the app again.
    case credentialsAccepted(app: String)
    /// The provider cannot be reached, so the daemon sends one push every five seconds.
    case breakerOpened(app: String, reason: String)
    case breakerClosed(app: String)

    package var app: String {
        switch self {
        case .credentialsRefused(let app, _), .credentialsAccepted(let app), .breakerOpened(let app, _),
            .breakerClosed(let app):
            app
        }
    }
}

/// Collects the news of all push apps.
///
/// A provider can refuse each push of an app, so the desk reports only changes. Phones choose the servers of some
/// tokens, and such a server can accept and refuse in turn. The desk therefore reports at most ``burst`` changes of an
/// app in ``span``. The standing of the credentials stays as last
/// reported, so that a later push reports the change.
struct PushNewsDesk {
    var isOn = false
    private var news: [PushNews] = []
    private var standings: [String: Standing] = [:]

    private struct Standing {
        var isRefused = false
        var told: [Instant] = []
    }

    /// The maximum number of changes of one app in ``span``.
    static let burst = 10
    static let span: Duration = .seconds(60)

    mutating func take() -> [PushNews] {
        defer { news = [] }
        return news
    }

    mutating func finished(_ outcome: PushOutcome, app: String, now: Instant) {
        guard isOn else { return }
        switch outcome {
        case .credentialsRefused(let reason):
            guard standings[app]?.isRefused != true, admits(app, now: now) else { return }
            standings[app, default: Standing()].isRefused = true
            news.append(.credentialsRefused(app: app, reason: reason))
        case .accepted, .acceptedWithNewToken:
            guard standings[app]?.isRefused == true, admits(app, now: now) else { return }
            standings[app]?.isRefused = false
            news.append(.credentialsAccepted(app: app))
        case .tokenDead, .retry, .renewCredential, .foreignToken, .noConnection, .payloadRefused, .noSuitableToken:
            break
        }
    }

    mutating func breaker(isOpen: Bool, app: String, problem: String?, now: Instant) {
        guard isOn, admits(app, now: now) else { return }
        news.append(
            isOpen
                ? .breakerOpened(app: app, reason: problem ?? "the provider answers with errors of its own")
                : .breakerClosed(app: app))
    }

    private mutating func admits(_ app: String, now: Instant) -> Bool {
        var told = (standings[app]?.told ?? []).filter { now - $0 < Self.span }
        defer { standings[app, default: Standing()].told = told }
        guard told.count < Self.burst else { return false }
        told.append(now)
        return true
    }
}
