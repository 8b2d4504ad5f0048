import Addressing
import PushDelivery
import Reactor
import Timekeeping

/// Silent pushes that show whether a provider takes a token.
///
/// - `@unchecked Sendable` because it lives on the shard's loop and is used there alone.
final class DryRuns: @unchecked Sendable {
    private let loop: EventLoop
    private let send: (PushRequest) -> Void
    private var waiting: [PushID: CheckedContinuation<Bool, Never>] = [:]
    private var last = mark

    /// Set in the numbers of these pushes; the engine's count from 1.
    private static let mark: UInt64 = 1 << 63
    /// For all tries; a token must not wait longer for a provider that is down.
    private static let patience: Duration = .seconds(30)

    init(loop: EventLoop, send: @escaping (PushRequest) -> Void) {
        self.loop = loop
        self.send = send
    }

    /// Whether the token can be pushed, as far as can be known.
    func canBePushed(_ token: PushToken) async -> Bool {
        if token.provider == .apns || token.provider == .apnsDevelopment, (try? APNsToken(token)) == nil {
            return false
        }
        last += 1
        let id = PushID(rawValue: last)
        let now = loop.moment.date
        return await withCheckedContinuation { asker in
            waiting[id] = asker
            send(
                PushRequest(
                    id: id, code: PushCode(high: .random(in: .min ... .max), low: .random(in: .min ... .max)),
                    device: .nobody, token: token, message: .silent, badge: 0, deadline: now + Self.patience))
        }
    }

    /// - Returns: false for a push that is none of these.
    func finished(_ id: PushID, _ outcome: PushOutcome) -> Bool {
        guard id.rawValue & Self.mark != 0 else { return false }
        let canBePushed =
            switch outcome {
            case .accepted, .acceptedWithNewToken: true
            // A PushKit token: Apple ends apps whose VoIP push is no call.
            case .noSuitableToken: true
            case .tokenDead, .retry, .renewCredential, .credentialsRefused, .noConnection, .payloadRefused: false
            }
        waiting.removeValue(forKey: id)?.resume(returning: canBePushed)
        return true
    }
}
