import Addressing
import PushDelivery
import Reactor
import Timekeeping

/// Silent pushes that test whether a provider accepts a token.
///
/// - `@unchecked Sendable` because it is used only on the shard's loop.
final class DryRuns: @unchecked Sendable {
    private let loop: EventLoop
    private let send: (PushRequest) -> Void
    private var waiting: [PushID: CheckedContinuation<Bool, Never>] = [:]
    private var last = mark

    /// The bit that marks the numbers of these pushes. Numbers of the engine count from 1 and never have it.
    private static let mark: UInt64 = 1 << 63
    /// The time limit for such a push with all its retries: a token must not wait longer for a provider that is down.
    private static let patience: Duration = .seconds(30)

    init(loop: EventLoop, send: @escaping (PushRequest) -> Void) {
        self.loop = loop
        self.send = send
    }

    /// Sends a silent push to the token. Returns true if the provider accepted it, or if the token is for calls only
    /// and cannot be tested.
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

    /// Handles the outcome of a push. Returns false for a push of another sender.
    func finished(_ id: PushID, _ outcome: PushOutcome) -> Bool {
        guard id.rawValue & Self.mark != 0 else { return false }
        let canBePushed =
            switch outcome {
            case .accepted, .acceptedWithNewToken: true
            // A PushKit token: iOS ends apps that get a VoIP push without a call.
            case .noSuitableToken: true
            case .tokenDead, .retry, .renewCredential, .credentialsRefused, .foreignToken, .noConnection,
                .payloadRefused:
                false
            }
        waiting.removeValue(forKey: id)?.resume(returning: canBePushed)
        return true
    }
}
