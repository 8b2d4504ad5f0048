import Bytes
import SIPGrammar
import SIPTransactions
import Timekeeping

extension ProxyEngine {
    /// Timer C of a branch has fired (RFC 3261 section 16.8): the phone gets a CANCEL, and the branch ends with 408.
    func legRangTooLong(_ client: ClientTransactionID, now: Moment) {
        guard let leg = legs.branch(client) else { return }
        if leg.isFormer(client) {
            withTransactions { $0.transportFailed(client, now: now.instant, into: &$1) }
            return
        }
        let reasons = [ByteString("SIP;cause=408;text=\"Request Timeout\"")]
        withTransactions { $0.cancel(client, reasons: reasons, now: now.instant, into: &$1) }
        branchFailed(leg.branch, of: leg.call, with: .requestTimeout, now: now)
    }
}
