package import Timekeeping

/// Whether a push could be sent, as far as that is known before it is ordered.
package enum PushVerdict: Hashable, Sendable {
    case possible
    /// The token cannot be used for this kind of push, or none of our apps is meant by it.
    case notCarried
    /// The provider would not accept what the push says. The text says why.
    case refused(String)
}

extension PushDirectory {
    /// Judges a push by writing it without sending it.
    package func verdict(on push: PushRequest, now: UnixTime) -> PushVerdict {
        guard let app = app(for: push.token).flatMap({ self[$0] }) else { return .notCarried }
        switch app.render(push, now: now) {
        case .request: return .possible
        case .impossible(.payloadRefused(let reason)): return .refused("\(app.name): \(reason)")
        case .impossible: return .notCarried
        }
    }
}
