package import Timekeeping

/// Whether a push can be sent, as far as the daemon knows before the push is ordered.
package enum PushVerdict: Hashable, Sendable {
    case possible
    /// The token cannot carry this kind of push, or belongs to none of our apps.
    case notCarried
    /// The provider would refuse the contents. The associated text is the reason.
    case refused(String)
}

extension PushDirectory {
    /// Decides whether a push can be sent, by writing its request without sending it.
    package func verdict(on push: PushRequest, now: UnixTime) -> PushVerdict {
        guard let app = app(for: push.token).flatMap({ self[$0] }) else { return .notCarried }
        switch app.render(push, now: now) {
        case .request: return .possible
        case .impossible(.payloadRefused(let reason)): return .refused("\(app.name): \(reason)")
        case .impossible: return .notCarried
        }
    }
}
