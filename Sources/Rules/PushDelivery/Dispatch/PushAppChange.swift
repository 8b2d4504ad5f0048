import Timekeeping

/// A change in the state of a push app, such as refused credentials. The operator's receiver of events gets the change.
package enum PushAppChange: Hashable, Sendable {
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

/// Collects the changes of all push apps for the receiver of events.
///
/// A provider can refuse each push of an app, so the monitor reports only changes. Phones choose the servers of some
/// push tokens, and such a server can alternate between accepting and refusing pushes. Therefore the monitor reports at
/// most ``burst`` changes of an app in ``span``. If the monitor skips a change, it keeps the reported state, so that a
/// later push reports the change.
struct PushAppMonitor {
    var isOn = false
    private var changes: [PushAppChange] = []
    private var states: [String: State] = [:]

    private struct State {
        var isRefused = false
        var told: [Instant] = []
    }

    /// The maximum number of changes of one app in ``span``.
    static let burst = 10
    static let span: Duration = .seconds(60)

    mutating func take() -> [PushAppChange] {
        defer { changes = [] }
        return changes
    }

    mutating func finished(_ outcome: PushOutcome, app: String, now: Instant) {
        guard isOn else { return }
        switch outcome {
        case .credentialsRefused(let reason):
            guard states[app]?.isRefused != true, admits(app, now: now) else { return }
            states[app, default: State()].isRefused = true
            changes.append(.credentialsRefused(app: app, reason: reason))
        case .accepted, .acceptedWithNewToken:
            guard states[app]?.isRefused == true, admits(app, now: now) else { return }
            states[app]?.isRefused = false
            changes.append(.credentialsAccepted(app: app))
        case .tokenDead, .retry, .renewCredential, .foreignToken, .noConnection, .payloadRefused, .noSuitableToken:
            break
        }
    }

    mutating func breaker(isOpen: Bool, app: String, problem: String?, now: Instant) {
        guard isOn, admits(app, now: now) else { return }
        changes.append(
            isOpen
                ? .breakerOpened(app: app, reason: problem ?? "the provider answers with errors of its own")
                : .breakerClosed(app: app))
    }

    private mutating func admits(_ app: String, now: Instant) -> Bool {
        var told = (states[app]?.told ?? []).filter { now - $0 < Self.span }
        defer { states[app, default: State()].told = told }
        guard told.count < Self.burst else { return false }
        told.append(now)
        return true
    }
}
