import Addressing
import Bytes
import PushDelivery
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping

/// Refusals by ``RequestRules``, and other checks of requests before they are forwarded.
extension ProxyEngine {
    /// Refuses a request. The sender gets the reason as a Warning, and the operator gets a log line.
    func refuse(_ incoming: IncomingRequest, by breach: RequestRules.Breach, now: Moment) {
        refuse(incoming, breach.status, because: breach.refusal, fields: [warning(breach.warning)], now: now)
    }

    /// A Warning with free text (code 399, RFC 3261 section 20.43).
    func warning(_ text: String) -> AddedField {
        .warning(399, by: identity.domains.first ?? ByteString("sippushd"), text)
    }

    // MARK: Challenges that nobody can answer (T9.17)

    /// Whether a response asks for passwords in our own realms only. The phone's answer could not reach the challenger,
    /// since we remove credentials for our realms (T9.8).
    func isUnanswerable(_ response: SIPResponse) -> Bool {
        guard response.status == .unauthorized || response.status == .proxyAuthenticationRequired else { return false }
        var isChallenge = false
        for field in response.frame.fields where field.name == .wwwAuthenticate || field.name == .proxyAuthenticate {
            guard response.frame.credentials(field, areFor: identity.realms) else { return false }
            isChallenge = true
        }
        return isChallenge
    }

    func noteUnanswerable(_ response: SIPResponse, of leg: BranchLeg, now: Moment) {
        counters.count(.challengeUnanswerable)
        guard let suppressed = refusals.unanswerable.admit(now: now.instant) else { return }
        let realm = identity.realms.first { realm in
            response.frame.fields.contains { field in
                (field.name == .wwwAuthenticate || field.name == .proxyAuthenticate)
                    && response.frame.credentials(field, areFor: [realm])
            }
        }
        let peer = leg.call.fork.branches[leg.branch].flow?.remote
        log.notice(
            "a peer asks phones for a password in a realm of this daemon, which no phone can answer: give the peer its own realm, or let it trust this daemon",
            [
                .target: peer.map { .described($0) } ?? .text("unknown"),
                .method: .bytes(response.cseq.method.name), .realm: .bytes(realm ?? .empty),
                .status: .number(Int(response.status.code)), .callID: .bytes(response.callID),
                .suppressed: .number(suppressed),
            ])
    }

    static let unanswerable = "The next server asks for a password in a realm of this proxy"

    /// Whether the content of a request allows to serve it. If not, the request was answered here.
    func isFit(_ incoming: IncomingRequest, isForUs: Bool, now: Moment) -> Bool {
        if let refusal = RequestValidation.check(
            incoming.request, fromTrusted: incoming.isTrusted, isForUs: isForUs,
            branchKey: transactions.branchKey)
        {
            refuse(incoming, refusal.status, fields: refusal.fields, now: now)
            return false
        }
        if incoming.request.uri.scheme == .sips, !incoming.flow.transport.isSecure {
            refuse(incoming, .temporarilyUnavailable, because: .notSecure, fields: [sipsNotAllowed], now: now)
            return false
        }
        return true
    }

    /// Whether an OPTIONS is for this daemon: the OPTIONS is addressed to us, or its Max-Forwards is 0 (RFC 3261
    /// sections 11 and 16.3 item 3).
    func isQuestionToUs(_ request: SIPRequest) -> Bool {
        guard request.method == .options else { return false }
        return request.maxForwards == 0 || request.uri.user == nil && identity.isUs(request.uri)
    }
}
