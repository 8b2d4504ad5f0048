package import Timekeeping

/// Whether a push can be sent, as far as the daemon can tell without asking the provider.
package enum PushVerdict: Hashable, Sendable {
    case possible
    /// The token cannot carry the push's kind of message, or belongs to no app in the settings.
    case notCarried
    /// The provider would refuse the content of the push. The text in the case `refused` is the provider's reason.
    case refused(String)
}

extension PushDirectory {
    /// Decides whether a push can be sent: builds the request for it, and sends nothing.
    package func verdict(on push: PushRequest, now: UnixTime) -> PushVerdict {
        guard let app = app(for: push.token).flatMap({ self[$0] }) else { return .notCarried }
        switch app.render(push, now: now) {
        case .request: return .possible
        case .impossible(.payloadRefused(let reason)): return .refused("\(app.name): \(reason)")
        case .impossible: return .notCarried
        }
    }
}
