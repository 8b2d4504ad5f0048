package import Timekeeping

/// Whether a push can be sent, as far as the daemon knows without asking the provider.
package enum PushVerdict: Hashable, Sendable {
    case possible
    /// The token cannot carry the push's kind of message, or belongs to no app in the settings.
    case notCarried
    /// The provider would refuse the push's content, for the reason in the text.
    case refused(String)
}

extension PushDirectory {
    /// Decides whether a push can be sent, by building its request without sending it.
    package func verdict(on push: PushRequest, now: UnixTime) -> PushVerdict {
        guard let app = app(for: push.token).flatMap({ self[$0] }) else { return .notCarried }
        switch app.render(push, now: now) {
        case .request: return .possible
        case .impossible(.payloadRefused(let reason)): return .refused("\(app.name): \(reason)")
        case .impossible: return .notCarried
        }
    }
}
