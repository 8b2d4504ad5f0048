import AccessLimits
package import Addressing
import Bytes
import Calling
import LocationService
import ProxyPolicy
import Registration
import Routing
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping

/// Decides whether a peer such as a PBX or an edge proxy is trusted, by its address or by the name in its certificate.
extension ProxyEngine {
    /// Whether the flow's peer is trusted, by its address or its certificate. Over WebSocket, only a certificate makes
    /// a peer trusted, because the address may be that of a reverse proxy for web pages.
    package func isTrusted(_ flow: Flow) -> Bool {
        if !flow.transport.isWebSocket, isTrusted(flow.remote) || network.flows.isOfNode(flow) { return true }
        guard let names = network.flows.names(on: flow) else { return false }
        return settings.trusted.contains { peer in names.contains { peer.matches(name: $0) } }
    }

    /// Whether a peer is trusted because of its address alone.
    package func isTrusted(_ source: Endpoint) -> Bool {
        // The loop uses indices, because indices avoid reference counting.
        for index in settings.trusted.indices where settings.trusted[index].matches(source) { return true }
        return false
    }

    /// Notes the host names, in lower case, that a peer's certificate proves (RFC 5922), and returns whether the peer
    /// is trusted.
    package func namesProved(_ names: [String], on flow: Flow) -> Bool {
        network.flows.proved(names, on: flow)
        return isTrusted(flow)
    }
}

/// Decides by the rules of `ClientPlaces` whether a response came from an address to which the request was sent
/// (T9.20). The engine tells `ClientPlaces` where a request is sent, when the connection ends, and when a phone gets
/// the INVITE on a new flow.
extension ProxyEngine {
    /// Who sent a response from an unexpected address: a trusted peer or the upstream, a device of the callee, or an
    /// unknown sender.
    func sender(on flow: Flow, of client: ClientTransactionID) -> ClientPlaces.Sender {
        guard isTrusted(flow) || network.upstream.isSource(flow.remote, of: settings.upstream, settings.trusted) else {
            return isOfCallee(flow, client) ? .callee : .unknown
        }
        let name = network.upstream.server == .none ? nil : settings.upstream?.host.string.lowercased()
        return .peer(
            ClientPlaces.Peer(
                hasOnePort: settings.trusted.haveOnePort(of: flow.remote.address),
                certified: name == nil ? .none : network.upstream.server,
                isCertified: name.map { network.flows.names(on: flow)?.contains($0) == true } ?? false))
    }

    /// Whether the flow belongs to a registered device of the callee; the device may answer earlier requests on its new
    /// flow.
    private func isOfCallee(_ flow: Flow, _ client: ClientTransactionID) -> Bool {
        let aor: AddressOfRecord? =
            switch sip.legs[client] {
            case .branch(let leg)?:
                leg.call.userCall?.aor
                    ?? (leg.call.fork.branches[leg.branch].addressee ?? leg.device)
                    .flatMap { registrar.bindings.binding($0)?.aor }
            case .farewell(let farewell)?: farewell.userCall.aor
            case .answered(let answered)?: answered.callee
            case .question?, .registration?, nil: nil
            }
        return aor.map { registrar.bindings.device(of: $0, where: { isSame(flow, $0) }) != nil } ?? false
    }

    /// Notes that the request of a fork branch was sent. A phone that has moved to a new flow may answer the branch's
    /// earlier transactions on the new flow.
    func sent(_ branch: Int, of call: ProxiedRequest, as client: ClientTransactionID, on flow: Flow) {
        call.fork.sent(branch, as: client, on: flow)
        guard call.fork.branches[branch].hasMoved else { return }
        for former in call.fork.branches[branch].former { sip.calledAnew(former, by: flow) }
    }
}
