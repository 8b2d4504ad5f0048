import Addressing
import Bytes
import Registration
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping

/// A response is accepted only from where its request went (T9.20). `ClientPlaces` implements the rule. The engine
/// reports to it where a request goes, when its connection ends, and when its phone is called again from a new flow.
extension ProxyEngine {
    /// The sender of a response that comes from none of the places of its request: a peer, the callee, or somebody
    /// unknown.
    func sender(on flow: Flow, of client: ClientTransactionID) -> ClientPlaces.Sender {
        guard isPeer(flow) else { return isOfCallee(flow, client) ? .callee : .unknown }
        let name = upstreamWatch.server == .none ? nil : settings.upstream?.host.string.lowercased()
        return .peer(
            ClientPlaces.Peer(
                hasOnePort: hasOnePort(flow.remote.address), certified: name == nil ? .none : upstreamWatch.server,
                isCertified: name.map { flows.provedNames[flow.connection]?.contains($0) == true } ?? false))
    }

    /// Whether the flow belongs to a registered device of the callee. A phone that has moved answers earlier requests
    /// from its new flow.
    private func isOfCallee(_ flow: Flow, _ client: ClientTransactionID) -> Bool {
        let aor: AddressOfRecord? =
            switch legs[client] {
            case .branch(let leg)?:
                leg.call.userCall?.aor
                    ?? leg.call.fork.branches[leg.branch].addressee.flatMap { registrar.bindings.binding($0)?.aor }
            case .farewell(let farewell)?: farewell.userCall.aor
            case .question?, nil: nil
            }
        return aor.map { registrar.bindings.device(of: $0, where: { isSame(flow, $0) }) != nil } ?? false
    }

    /// The request of a branch was sent. A phone that has moved may answer its earlier transactions from the new flow,
    /// too.
    func sent(_ branch: Int, of call: ProxiedRequest, as client: ClientTransactionID, on flow: Flow) {
        call.fork.sent(branch, as: client, on: flow)
        guard call.fork.branches[branch].hasMoved else { return }
        for former in call.fork.branches[branch].former { transactions.calledAnew(former, by: flow) }
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
        guard let suppressed = refusals.strayed.admit(now: now.instant) else { return }
        log.notice(
            "response refused: it does not come from where its request went",
            [
                .source: .described(flow.remote),
                .target: .described(transactions.flow(of: match)?.remote ?? flow.remote),
                .status: .number(Int(response.status.code)), .method: .text(name(of: response.cseq.method)),
                .callID: .bytes(response.callID), .suppressed: .number(suppressed),
            ])
    }
}
