import Addressing
import Bytes
import Registration
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping

/// A response counts only from where its request went (T9.20). The branch in its Via is no proof: whoever has seen the request
/// knows it.
extension ProxyEngine {
    /// Whether what comes on a flow comes from where the request of the transaction went.
    func comes(_ flow: Flow, from match: TransactionTable.ClientMatch) -> Bool {
        if Self.comes(flow, from: match.flow) { return true }
        if let origin = match.origin, Self.comes(flow, from: origin) { return true }
        return isPeer(flow) ? speaksForPeer(flow, at: match.flow) : isOfCallee(flow, match)
    }

    private static func comes(_ flow: Flow, from sent: Flow) -> Bool {
        guard flow.remote == sent.remote, flow.transport == sent.transport else { return false }
        // Over UDP both are 0. A request without a connection of its own may be answered on any to that place; over TLS, on one
        // whose peer has the certificate.
        // After a connection has ended, the next one from that very place may bring the answer.
        return flow.connection == sent.connection
            || (sent.connection == 0 || sent.isClosed) && flow.server == sent.server
    }

    /// A PBX may answer from another port of its address, and by a connection that it has opened (RFC 3261 section 18.2.2).
    private func speaksForPeer(_ flow: Flow, at sent: Flow) -> Bool {
        guard sent.transport.isSecure else { return speaksFor(sent.remote, flow.remote) }
        guard flow.transport.isSecure else { return false }
        if sent.server != .none, sent.server == upstreamServer, let name = settings.upstream?.host.string.lowercased() {
            // Its certificate says who it is, wherever it comes from.
            return provedNames[flow.connection]?.contains(name) == true
        }
        return speaksFor(sent.remote, flow.remote)
    }

    /// A phone that has moved answers what it got before from where its user is registered now.
    private func isOfCallee(_ flow: Flow, _ match: TransactionTable.ClientMatch) -> Bool {
        let client = match.client
        // Its connection has ended, and it answers by the next one from that very place.
        if legs.isLost(client), flow.remote == match.flow.remote, flow.transport == match.flow.transport { return true }
        // A phone that is called back by a new connection may answer there what it got by the one before.
        if case .branch(let leg)? = legs[client], let present = leg.call.fork.branches[leg.branch].flow,
            Self.comes(flow, from: present)
        {
            return true
        }
        let aor: AddressOfRecord? =
            switch legs[client] {
            case .branch(let leg)?:
                leg.call.offer?.aor
                    ?? leg.call.fork.branches[leg.branch].addressee.flatMap { registrar.bindings.binding($0)?.aor }
            case .farewell(let farewell)?: farewell.offer.aor
            case .question?, .probe?, nil: nil
            }
        return aor.map { registrar.bindings.device(of: $0, where: { isSame(flow, $0) }) != nil } ?? false
    }

    private func name(of method: Method) -> String {
        var name: [UInt8] = []
        method.append(to: &name)
        return String(decoding: name, as: UTF8.self)
    }

    func responseRefused(
        _ response: SIPResponse, on flow: Flow, to match: TransactionTable.ClientMatch, now: Moment
    ) {
        counters.count(.rejectedStrayed)
        guard let suppressed = strayedResponses.admit(now: now.instant) else { return }
        log.notice(
            "response refused: it does not come from where its request went",
            [
                .source: .described(flow.remote), .target: .described(match.flow.remote),
                .status: .number(Int(response.status.code)), .method: .text(name(of: response.cseq.method)),
                .callID: .bytes(response.callID), .suppressed: .number(suppressed),
            ])
    }
}
