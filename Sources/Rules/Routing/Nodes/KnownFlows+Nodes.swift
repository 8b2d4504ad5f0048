package import Addressing
package import Bytes
import ProxyPolicy
package import Registration
package import SIPGrammar

/// Finds the hop to phones whose flow is at another node of the cluster.
extension KnownFlows {
    /// Whether a message came from another node. Only nodes have a certificate that the nodes' listener accepts.
    package func isOfNode(_ flow: Flow) -> Bool {
        guard haveNodes, let nodes, flow.listener == nodes.own.listener, flow.transport == .tls else { return false }
        // A flow of an earlier run can have the listener's number, because the number depends on the setting `listen`.
        return flow.isConnection ? names(on: flow) != nil : nodes.hasNode(at: flow.remote)
    }

    /// Whether a flow of this node leads to a node.
    package func isToNode(_ flow: Flow) -> Bool {
        haveNodes && flow.transport == .tls && flow.listener == nodes?.own.listener
    }

    /// Whether a request of this run or of an earlier run came from another node.
    package func cameFromNode(_ flow: Flow) -> Bool {
        if isOfNode(flow) { return true }
        return haveNodes && flow.isClosed && flow.transport == .tls && flow.listener == nodes?.own.listener
    }

    /// The hop to a phone whose flow is at another node; `nil` if the contact's Path names no node.
    package func nodeHop(to target: ForkTarget) -> DeviceHop? {
        guard haveNodes, let nodes, let uri = target.pathURI, let place = nodes.place(of: uri) else { return nil }
        switch place {
        case .peer:
            guard let (transport, endpoint) = NextHop(uri)?.numeric, transport == .tls else { return .unreachable }
            let flow = Flow(transport: .tls, listener: nodes.own.listener, connection: 0, remote: endpoint)
            return .flow(flow, otherwise: nil)
        case .own, .gone: return target.canBeWoken ? .asleep : .unreachable
        }
    }

    /// The flow to the node that has a phone's flow, and the Route values that name the phone's flow there.
    package func nodeRoute(to target: ForkTarget?) -> (flow: Flow, routes: [ByteString])? {
        guard let target, case .flow(let flow, _)? = nodeHop(to: target) else { return nil }
        return (flow, target.path)
    }

    /// The flow to the living node that the first Route value names. The node can be this node, which sends a request to
    /// itself when it continues the call of a node that had sent it the request.
    package func nodeFlow(by routes: [ByteString]) -> Flow? {
        guard haveNodes, let nodes, let first = routes.first, let uri = NameAddress(first)?.uri else { return nil }
        switch nodes.place(of: uri) {
        case .own?: return nodes.flow(to: nodes.own.place)
        case .peer?: return uri.port.flatMap { nodes.flow(to: ByteString("\(uri.host.lowercased()):\($0)")) }
        case .gone?, nil: return nil
        }
    }

    /// The flow to the living node that wrote a Via; `nil` if the node has ended.
    package func nodeFlow(to via: Via) -> Flow? {
        guard let nodes, let port = via.port else { return nil }
        return nodes.peerFlow(at: ByteString("\(via.host.lowercased()):\(port)"))
    }

    /// The name of the living node that has the flow to a phone; `nil` without a cluster, or if the node has ended.
    package func nodeName(of target: ForkTarget) -> String? {
        guard haveNodes, let nodes else { return nil }
        guard let uri = target.pathURI, nodes.place(of: uri) != nil else { return nodes.own.name }
        return nodes.name(of: uri)
    }

    /// Whether a contact's Path names a run of a node that is over.
    package func hasLostNode(_ path: [ByteString]) -> Bool {
        guard haveNodes, let nodes, let first = path.first, let uri = NameAddress(first)?.uri else { return false }
        return nodes.place(of: uri) == .gone
    }

    /// Whether a contact's Path names another living node.
    package func isAtOtherNode(_ path: [ByteString]) -> Bool {
        guard haveNodes, let nodes, let first = path.first, let uri = NameAddress(first)?.uri else { return false }
        return nodes.place(of: uri) == .peer
    }
}
