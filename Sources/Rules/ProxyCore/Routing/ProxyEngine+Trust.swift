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

/// Decides whether a peer such as a PBX or an edge is trusted: by its address, or by the name that its certificate
/// proves.
extension ProxyEngine {
    /// Whether the flow's peer is trusted, by its address or its certificate. Over WebSocket, a peer is trusted only by
    /// a certificate: its address may be that of a reverse proxy that forwards requests from any web page.
    package func isTrusted(_ flow: Flow) -> Bool {
        if !flow.transport.isWebSocket, isTrusted(flow.remote) { return true }
        guard let names = network.flows.names(on: flow) else { return false }
        return settings.trusted.contains { peer in names.contains { peer.matches(name: $0) } }
    }

    /// Whether a peer is trusted because of its address alone.
    package func isTrusted(_ source: Endpoint) -> Bool {
        // The loop over the trusted peers uses indices, because it runs a dozen times for each call, and indices avoid
        // retain and release.
        for index in settings.trusted.indices where settings.trusted[index].matches(source) { return true }
        return false
    }

    /// Notes the host names, in lower case, that a peer has proved by its certificate (RFC 5922), and returns whether
    /// the peer is trusted.
    package func namesProved(_ names: [String], on flow: Flow) -> Bool {
        network.flows.proved(names, on: flow)
        return isTrusted(flow)
    }
}

/// Decides whether a response came from a place to which its request was sent (T9.20), by the rules of `ClientPlaces`.
/// The engine notes in `ClientPlaces` where it sends a request, when its connection ends, and when its phone gets the
/// INVITE again on a new flow.
extension ProxyEngine {
    /// The kind of sender of a response that came from another address than the address of its request: a trusted peer
    /// or upstream, a device of the callee, or unknown.
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

    /// Whether the flow belongs to a registered device of the callee: such a device may answer earlier requests on its
    /// new flow.
    private func isOfCallee(_ flow: Flow, _ client: ClientTransactionID) -> Bool {
        let aor: AddressOfRecord? =
            switch sip.legs[client] {
            case .branch(let leg)?:
                leg.call.userCall?.aor
                    ?? leg.call.fork.branches[leg.branch].addressee.flatMap { registrar.bindings.binding($0)?.aor }
            case .farewell(let farewell)?: farewell.userCall.aor
            case .answered(let answered)?: answered.callee
            case .question?, .registration?, nil: nil
            }
        return aor.map { registrar.bindings.device(of: $0, where: { isSame(flow, $0) }) != nil } ?? false
    }

    /// Notes that the request of a branch was sent. If the phone has moved to a new address, its responses to earlier
    /// transactions of the branch are accepted on the phone's new flow too.
    func sent(_ branch: Int, of call: ProxiedRequest, as client: ClientTransactionID, on flow: Flow) {
        call.fork.sent(branch, as: client, on: flow)
        guard call.fork.branches[branch].hasMoved else { return }
        for former in call.fork.branches[branch].former { sip.calledAnew(former, by: flow) }
    }
}
