package import Addressing
import Bytes
import Registration
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping

/// Trust in PBXs, edges and other peers: by their address, or by the name that their certificate proves.
extension ProxyEngine {
    /// Whether the flow's peer is trusted by its address or its certificate. Over WebSocket only the certificate
    /// counts: the address may be that of a reverse proxy, which forwards requests of any web page.
    package func isTrusted(_ flow: Flow) -> Bool {
        if !flow.transport.isWebSocket, isTrusted(flow.remote) { return true }
        guard !network.flows.provedNames.isEmpty, flow.isConnection,
            let names = network.flows.provedNames[flow.connection]
        else {
            return false
        }
        return settings.trusted.contains { peer in names.contains { peer.matches(name: $0) } }
    }

    /// Whether the address alone makes the peer trusted.
    package func isTrusted(_ source: Endpoint) -> Bool {
        // A loop over indices: this method runs a dozen times per call, and a loop over the elements would retain the
        // list and each element.
        for index in settings.trusted.indices where settings.trusted[index].matches(source) { return true }
        return false
    }

    /// The peer of a connection has proved these names by its certificate (RFC 5922). The names are in lower case.
    ///
    /// - Returns: whether the peer is trusted.
    package func namesProved(_ names: [String], on flow: Flow) -> Bool {
        network.flows.provedNames[flow.connection] = names.isEmpty ? nil : names
        return isTrusted(flow)
    }

    /// A trusted peer allows us to send our requests by the connection that the peer opened (RFC 5923). The peer's Via
    /// has `alias`, and the port at which the peer would be called otherwise.
    ///
    /// Over TLS the peer must have proved the name under which we call it. Today that can only be the upstream's name.
    func noteReuse(_ incoming: IncomingRequest) {
        let (flow, via) = (incoming.flow, incoming.request.via)
        guard incoming.isTrusted, flow.isConnection, !flow.transport.isWebSocket, via.parameters.contains("alias")
        else {
            return
        }
        var server = ServerNumber.none
        if flow.transport.isSecure {
            guard let name = settings.upstream?.host.string.lowercased(), network.upstream.server != .none,
                network.flows.provedNames[flow.connection]?.contains(name) == true
            else { return }
            server = network.upstream.server
        }
        let port = via.port ?? (flow.transport.isSecure ? 5061 : 5060)
        act(.reuse(flow, as: Endpoint(flow.remote.address, port), server))
    }
}

/// A response is accepted only from where its request went (T9.20). `ClientPlaces` implements the rule. The engine
/// reports to it where a request goes, when its connection ends, and when its phone is called again from a new flow.
extension ProxyEngine {
    /// The sender of a response that comes from none of the places of its request: a peer, the callee, or somebody
    /// unknown.
    func sender(on flow: Flow, of client: ClientTransactionID) -> ClientPlaces.Sender {
        guard isPeer(flow) else { return isOfCallee(flow, client) ? .callee : .unknown }
        let name = network.upstream.server == .none ? nil : settings.upstream?.host.string.lowercased()
        return .peer(
            ClientPlaces.Peer(
                hasOnePort: hasOnePort(flow.remote.address), certified: name == nil ? .none : network.upstream.server,
                isCertified: name.map { network.flows.provedNames[flow.connection]?.contains($0) == true } ?? false))
    }

    /// Whether the flow belongs to a registered device of the callee. A phone that has moved answers earlier requests
    /// from its new flow.
    private func isOfCallee(_ flow: Flow, _ client: ClientTransactionID) -> Bool {
        let aor: AddressOfRecord? =
            switch sip.legs[client] {
            case .branch(let leg)?:
                leg.call.userCall?.aor
                    ?? leg.call.fork.branches[leg.branch].addressee.flatMap { registrar.bindings.binding($0)?.aor }
            case .farewell(let farewell)?: farewell.userCall.aor
            case .answered(let answered)?: answered.callee
            case .question?, nil: nil
            }
        return aor.map { registrar.bindings.device(of: $0, where: { isSame(flow, $0) }) != nil } ?? false
    }

    /// The request of a branch was sent. A phone that has moved may answer its earlier transactions from the new flow,
    /// too.
    func sent(_ branch: Int, of call: ProxiedRequest, as client: ClientTransactionID, on flow: Flow) {
        call.fork.sent(branch, as: client, on: flow)
        guard call.fork.branches[branch].hasMoved else { return }
        for former in call.fork.branches[branch].former { sip.transactions.calledAnew(former, by: flow) }
    }

    private func name(of method: Method) -> String {
        var name: [UInt8] = []
        method.append(to: &name)
        return String(decoding: name, as: UTF8.self)
    }

    func responseRefused(
        _ response: SIPResponse, on flow: Flow, to match: TransactionTable.ClientMatch, now: Moment
    ) {
        output.counters.count(.rejectedStrayed)
        guard let suppressed = access.refusals.strayed.admit(now: now.instant) else { return }
        log.notice(
            "response refused: it does not come from where its request went",
            [
                .source: .described(flow.remote),
                .target: .described(sip.transactions.flow(of: match)?.remote ?? flow.remote),
                .status: .number(Int(response.status.code)), .method: .text(name(of: response.cseq.method)),
                .callID: .bytes(response.callID), .suppressed: .number(suppressed),
            ])
    }
}
