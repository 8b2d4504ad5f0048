import Addressing
import Bytes
import ProxyCore
import SIPGrammar
import SIPMessage
import Timekeeping

/// The links between the nodes of a simulated cluster: SIP over TLS, in streams that keep their order, that delay, and
/// that break.
extension SimulatedWorld {
    /// How long a connection stays open while no bytes arrive.
    private static let linkPatience: Duration = .seconds(10)

    func nodeSent(_ bytes: [UInt8], on flow: Flow, from node: Int) {
        guard let cluster else { return }
        cluster.exchanged += 1
        guard flow.connection == 0 else {
            guard let link = cluster.links[flow.connection], !link.isBroken else {
                return sendFails(on: flow, from: node)
            }
            return send(bytes, on: link, from: node)
        }
        guard let peer = cluster.places.firstIndex(where: { $0.endpoint == flow.remote }) else {
            return sendFails(on: flow, from: node)
        }
        let open = cluster.links.values.filter { $0.opener == node && $0.other == peer && !$0.isBroken }
        if let link = open.min(by: { $0.number < $1.number }) { return send(bytes, on: link, from: node) }
        guard nodes[peer].isAlive, cluster.isOpen(from: node, to: peer, now: now.instant) else {
            cluster.noteLinkTrouble(node, peer, until: now.instant)
            return sendFails(on: flow, from: node, after: nodes[peer].isAlive ? .seconds(4) : .milliseconds(2))
        }
        lastConnection += 1
        let link = SimulatedLink(number: lastConnection, opener: node, other: peer)
        cluster.links[link.number] = link
        for end in [node, peer] { _ = nodes[end].engine.namesProved(["node"], on: self.flow(of: link, at: end)) }
        send(bytes, on: link, from: node)
    }

    /// The flow of a connection as one of its nodes sees it. The opener sees the other node's port, and the other node
    /// sees a port of the opener.
    private func flow(of link: SimulatedLink, at node: Int) -> Flow {
        let places = cluster?.places ?? []
        let remote =
            node == link.opener
            ? places[link.other].endpoint
            : Endpoint(places[link.opener].address, UInt16(truncatingIfNeeded: 40_000 + link.number % 20_000))
        return Flow(
            transport: .tls, listener: SimulatedClusterState.listener, connection: link.number, remote: remote)
    }

    private func send(_ bytes: [UInt8], on link: SimulatedLink, from node: Int) {
        guard let cluster else { return }
        let peer = link.peer(of: node)
        noteForwarded(bytes, from: node, to: peer)
        tell("to the other node", bytes, on: flow(of: link, at: node), at: node)
        var start = now.instant
        if let end = cluster.cutUntil[[link.opener, link.other]], end > now.instant {
            if end - now.instant > Self.linkPatience { breakLater(link) }
            start = end
        }
        // Sometimes the network loses a packet, and TCP repeats it later.
        let delay = random.chance(isQuiet ? 0 : plan.loss) ? random.milliseconds(200...400) : random.milliseconds(0...5)
        let arrival = max(start + delay, link.arrivals[peer] ?? .distantPast)
        link.arrivals[peer] = arrival
        let generation = nodes[peer].generation
        at(arrival - now.instant) { world in
            guard !link.isBroken, world.nodes[peer].isAlive, world.nodes[peer].generation == generation else { return }
            world.arrived(bytes, on: link, at: peer)
        }
    }

    private func arrived(_ bytes: [UInt8], on link: SimulatedLink, at node: Int) {
        let engine = nodes[node].engine
        let flow = flow(of: link, at: node)
        tell("from the other node", bytes, on: flow, at: node)
        switch reader.read(bytes) {
        case .request(let request): engine.requestReceived(request, on: flow, now: now)
        case .response(let response): engine.responseReceived(response, on: flow, now: now)
        case .unusable(let unusable): violate("a node sent what cannot be read: \(unusable.reason)")
        }
        drain(node)
    }

    private func breakLater(_ link: SimulatedLink) { at(Self.linkPatience) { $0.linkBreaks(link) } }

    /// Ends a connection between two nodes. Its messages on the way are lost.
    func linkBreaks(_ link: SimulatedLink) {
        guard let cluster, !link.isBroken else { return }
        link.isBroken = true
        // A node notices by three seconds of silence that an INVITE was lost.
        cluster.noteLinkTrouble(link.opener, link.other, until: now.instant + .milliseconds(3_100))
        cluster.links[link.number] = nil
        for node in [link.opener, link.other] where nodes[node].isAlive {
            connectionEnds(flow(of: link, at: node), after: random.milliseconds(0...50), at: node)
        }
    }

    /// Notes an INVITE that a node sends to another node for a phone there.
    private func noteForwarded(_ bytes: [UInt8], from node: Int, to peer: Int) {
        guard let cluster, case .request(let request) = reader.read(bytes), request.method == .invite else { return }
        let callID = request.callID.string
        cluster.crossed += 1
        cluster.forwarded.insert(SimulatedClusterState.Forward(callID: callID, node: peer))
        if let call = calls.first(where: { $0.callID == callID }), call.isOver, !call.hasChangedOwner {
            checkForwarded(call, from: node)
        }
    }
}
