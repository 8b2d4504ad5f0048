package import PushDelivery
import Addressing
import Bytes
import Registration
package import Timekeeping

/// Silent pushes that show whether a provider accepts a token.
extension ProxyEngine {
    /// How long a push may take with all its retries. A token must not wait longer for a provider that is down.
    private static let dryRunPatience: Duration = .seconds(30)

    /// Checks whether a token can be pushed. The answer is ``ProxyAction/dryRunEnded(_:canBePushed:)``.
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
    /// Whether the token is good: the provider accepted the silent push, or could not send it because the token is
    /// only for calls.
    var showsGoodToken: Bool {
        switch self {
        case .accepted, .acceptedWithNewToken: true
        // This is a PushKit token. It gets no silent push, because Apple ends apps whose VoIP push is no call.
        case .noSuitableToken: true
        case .tokenDead, .retry, .renewCredential, .credentialsRefused, .foreignToken, .noConnection, .payloadRefused:
            false
        }
    }
}
