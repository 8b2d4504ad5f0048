import Addressing
import Bytes
import Registration
import SIPGrammar
import SIPTransactions
import Timekeeping

/// Finds the flow for a request inside a dialog.
extension ProxyEngine {
    /// The flow to the side that the request is for; `nil` if none exists now.
    func dialogHop(_ pass: DialogPass, _ next: RouteSet.Next, now: Moment) -> Flow? {
        guard let flow = dialogFlow(pass, next, now: now), flow.transport.isSecure || !next.isSecure else { return nil }
        return flow
    }

    func dialogFlow(_ pass: DialogPass, _ next: RouteSet.Next, now: Moment) -> Flow? {
        let side = pass.receiver
        switch side.party {
        case .phone(let binding):
            if registrar.bindings.hasFurtherFlows(binding), let flow = bestFlow(of: binding, for: side.flow, now: now) {
                return isTrusted(flow) ? place(next, insteadOf: flow, pass, now: now) : flow
            }
            let present = registrar.bindings.flow(of: binding)
            // The binding's flow shows whether the dialog's connection has ended since.
            let first = present == side.flow.closed ? nil : side.flow
            guard let flow = [present, first].lazy.compactMap({ $0 }).first(where: { leadsToPhone($0) }) else {
                return returnFlow(to: binding, now: now)
            }
            // Behind a trusted edge, the edge says where the phone is.
            return isTrusted(flow) ? place(next, insteadOf: flow, pass, now: now) : flow
        case .caller: return leadsToPhone(side.flow) ? side.flow : nil
        case .peer, .upstream:
            if let place = place(next, insteadOf: side.flow, pass, now: now), !place.isClosed { return named(place) }
            // The connection of this side belonged to an earlier run of the program.
            guard let (transport, endpoint) = settings.upstream?.numeric,
                let listener = identity.listener(for: transport, to: endpoint.address, preferring: nil)
            else { return nil }
            return Flow(transport: transport, listener: listener.number, connection: 0, remote: endpoint)
        }
    }

    /// If a phone has several flows, returns the flow on which the dialog was made while it exists. Otherwise returns
    /// the best flow that leads to the phone.
    func bestFlow(of binding: DeviceID, for first: Flow, now: Moment) -> Flow? {
        let flows = registrar.bindings.flows(of: binding, now: now.instant).compactMap {
            registrar.bindings.flow(of: $0)
        }
        return flows.contains(first) ? first : flows.first { leadsToPhone($0) }
    }

    /// Adds the upstream's name to a flow that leads to the upstream, so that the upstream's certificate can be
    /// checked. A dialog token has only the address.
    func named(_ flow: Flow) -> Flow {
        guard flow.transport == .tls, !flow.isConnection, upstreamWatch.places.contains(flow.remote) else {
            return flow
        }
        return Flow(
            transport: flow.transport, listener: flow.listener, connection: 0, remote: flow.remote,
            server: upstreamWatch.server)
    }

    /// The flow on which a registered phone without pushes is called back after its connection has ended (T9.2).
    func returnFlow(to binding: DeviceID, now: Moment) -> Flow? {
        guard let target = registrar.bindings.forkTarget(binding, now: now.instant),
            case .connection(let place) = hop(to: target),
            let listener = identity.listener(
                for: place.transport, to: place.endpoint.address, preferring: target.flow.listener)
        else { return nil }
        return Flow(transport: place.transport, listener: listener.number, connection: 0, remote: place.endpoint)
    }

    /// Whether the flow leads to a phone. No connection is ever opened to an address that a phone came from, because
    /// nobody listens there.
    func leadsToPhone(_ flow: Flow) -> Bool { !flow.transport.isReliable || flow.isConnection }

    /// The flow to the place that a peer names for its in-dialog requests in Contact or Record-Route. The place is
    /// used only if it is trusted and not this proxy. Otherwise, and for host names, the address that the dialog came
    /// from is used.
    ///
    /// The transport in the peer's URI is used. If the URI names none, a peer that came over a connection is reached
    /// over one.
    func place(_ next: RouteSet.Next, insteadOf flow: Flow, _ pass: DialogPass, now: Moment) -> Flow? {
        guard let hop = NextHop(next.target)?.staying(on: flow.transport), let (named, endpoint) = hop.numeric else {
            return flow
        }
        // An ACK cannot be retried, so UDP is chosen first if TCP failed lately.
        let isRefused = named == .tcp && lookups.withoutTCP.contains(endpoint, now: now.instant)
        let transport = isRefused && hop.transport == .tcp ? .udp : named
        guard isTrusted(endpoint), transport != flow.transport || endpoint != flow.remote,
            !identity.isUs(next.target), !identity.isOurs(transport, endpoint),
            pass.isFromPeer || endpoint == flow.remote || isKnownPort(endpoint),
            let listener = identity.listener(for: transport, to: endpoint.address, preferring: flow.listener)
        else { return flow }
        return Flow(transport: transport, listener: listener.number, connection: 0, remote: endpoint)
    }

    /// Whether a large request may go over TCP: to a peer, unless UDP was asked for. A phone is reached on its flow
    /// only.
    func mayUseTCP(_ pass: DialogPass, _ next: RouteSet.Next) -> Bool {
        switch pass.receiver.party {
        case .phone, .caller: false
        case .peer, .upstream: !next.target.parameters.contains("transport") && settings.upstream?.transport != .udp
        }
    }

    /// The UDP hop to try when a TCP connection to a peer fails (RFC 3261 section 18.1.1). It is offered if the
    /// dialog was made over UDP, or if the peer's URI asks for no transport.
    func insteadOfConnection(_ hop: Flow, _ pass: DialogPass, _ next: RouteSet.Next) -> [ResolvedHop] {
        let side = pass.receiver
        guard hop.transport == .tcp, !hop.isConnection, side.party == .peer || side.party == .upstream else {
            return []
        }
        let knowsDatagrams = side.flow.transport == .udp && side.flow.remote.address == hop.remote.address
        guard knowsDatagrams || !next.target.parameters.contains("transport") else { return [] }
        return [ResolvedHop(transport: .udp, endpoint: hop.remote, isFixed: true)]
    }

    /// Whether a phone's Route or Request-URI may name this port of a trusted host. Only SIP's ports and the ports in
    /// the settings are allowed (T9.4).
    func isKnownPort(_ endpoint: Endpoint) -> Bool {
        if endpoint.port == 5060 || endpoint.port == 5061 { return true }
        if let (_, upstream) = settings.upstream?.numeric, upstream == endpoint { return true }
        return upstreamWatch.places.contains(endpoint) || settings.trusted.contains(.endpoint(endpoint))
    }
}
