package import Timekeeping

/// What is known of a push before it is ordered.
package enum PushVerdict: Hashable, Sendable {
    case possible
    /// That token does not carry it, or no app of ours is meant by it.
    case notCarried
    /// It says what its provider does not take; in words.
    case refused(String)
}

extension PushDirectory {
    /// Writes a push that nobody sends.
    package func verdict(on push: PushRequest, now: UnixTime) -> PushVerdict {
        guard let app = app(for: push.token).flatMap({ self[$0] }) else { return .notCarried }
        switch app.render(push, now: now) {
        case .request: return .possible
        case .impossible(.payloadRefused(let reason)): return .refused("\(app.name): \(reason)")
        case .impossible: return .notCarried
        }
    }
}
