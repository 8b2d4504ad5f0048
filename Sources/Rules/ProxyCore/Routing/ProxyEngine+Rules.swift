import Addressing
import Bytes
import SIPGrammar
import Telemetry
import Timekeeping

/// Requests that break the rules of who may ask what (``RequestRules``).
extension ProxyEngine {
    /// Refuses a request: its sender reads why, and so does the operator.
    func refuse(_ incoming: IncomingRequest, by breach: RequestRules.Breach, now: Moment) {
        refuse(incoming, breach.status, because: breach.refusal, fields: [warning(breach.warning)], now: now)
    }

    /// A Warning in words (RFC 3261 section 20.43).
    func warning(_ text: String) -> AddedField {
        .warning(399, by: identity.domains.first ?? ByteString("sippushd"), text)
    }

    // MARK: Challenges that nobody can answer (T9.17)

    /// Whether a response asks for a password in realms of ours alone. Whoever answers it answers in vain: credentials for our
    /// realms end here (T9.8).
    func isUnanswerable(_ response: SIPResponse) -> Bool {
        guard response.status == .unauthorized || response.status == .proxyAuthenticationRequired else { return false }
        var isChallenge = false
        for field in response.frame.fields where field.name == .wwwAuthenticate || field.name == .proxyAuthenticate {
            guard response.frame.credentials(field, areFor: ownRealms) else { return false }
            isChallenge = true
        }
        return isChallenge
    }

    func noteUnanswerable(_ response: SIPResponse, of leg: BranchLeg, now: Moment) {
        counters.count(.challengeUnanswerable)
        guard let suppressed = unanswerableLines.admit(now: now.instant) else { return }
        let realm = ownRealms.first { realm in
            response.frame.fields.contains { field in
                (field.name == .wwwAuthenticate || field.name == .proxyAuthenticate)
                    && response.frame.credentials(field, areFor: [realm])
            }
        }
        let peer = leg.call.fork.branches[leg.branch].flow?.remote
        log.notice(
            "a peer challenges in a realm of ours, which nobody can answer: give it a realm of its own, or let it trust this daemon",
            [
                .target: peer.map { .described($0) } ?? .text("unknown"),
                .method: .bytes(response.cseq.method.name), .realm: .bytes(realm ?? .empty),
                .status: .number(Int(response.status.code)), .callID: .bytes(response.callID),
                .suppressed: .number(suppressed),
            ])
    }

    static let unanswerable = "The next server asks for a password in a realm of this proxy"
}
