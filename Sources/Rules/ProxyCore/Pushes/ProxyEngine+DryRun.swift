package import PushDelivery
import Addressing
import Bytes
import Registration
package import Timekeeping

/// Pushes that nobody notices: they show whether a provider takes a token.
extension ProxyEngine {
    /// How long a push may take with all its tries; a token must not wait longer for a provider that is down.
    private static let dryRunPatience: Duration = .seconds(30)

    /// Somebody wants to know whether a token can be pushed. The answer is ``ProxyAction/dryRunEnded(_:canBePushed:)``.
    package func dryRunAsked(_ token: PushToken, _ ticket: DryRunTicket, now: Moment) {
        if token.provider == .apns || token.provider == .apnsDevelopment, (try? APNsToken(token)) == nil {
            return act(.dryRunEnded(ticket, canBePushed: false))
        }
        let code = ledger.newCode()
        let nobody = AddressOfRecord(user: .empty, host: .empty)
        let id = ledger.begin(AskedPush(.dryRun(ticket), code, device: .nobody, aor: nobody, record: nil))
        ledger.send(
            PushRequest(
                id: id, code: code, device: .nobody, token: token, message: .silent, badge: 0,
                deadline: now.date + Self.dryRunPatience), now: now, into: &actions)
    }
}

extension PushOutcome {
    /// Whether the provider took a silent push to the token, or could get none since the token is for calls alone.
    var showsGoodToken: Bool {
        switch self {
        case .accepted, .acceptedWithNewToken: true
        // A PushKit token: Apple ends apps whose VoIP push is no call.
        case .noSuitableToken: true
        case .tokenDead, .retry, .renewCredential, .credentialsRefused, .foreignToken, .noConnection, .payloadRefused:
            false
        }
    }
}
