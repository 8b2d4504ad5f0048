import Addressing
import Bytes
import Registration
import SIPGrammar
import SIPTransactions
import Timekeeping

/// Where a request inside a dialog goes.
extension ProxyEngine {
    /// The flow to one end of the dialog; `nil` when there is none at present.
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
            // A connection that has ended since is known by the binding alone.
            let first = present == side.flow.closed ? nil : side.flow
            guard let flow = [present, first].lazy.compactMap({ $0 }).first(where: { leadsToPhone($0) }) else {
                return returnFlow(to: binding, now: now)
            }
            // Behind a trusted edge the edge says where the phone is.
            return isTrusted(flow) ? place(next, insteadOf: flow, pass, now: now) : flow
        case .caller: return leadsToPhone(side.flow) ? side.flow : nil
        case .peer, .upstream:
            if let place = place(next, insteadOf: side.flow, pass, now: now), !place.isClosed { return named(place) }
            // It called over a connection that an earlier run of this program had.
            guard let (transport, endpoint) = settings.upstream?.numeric,
                let listener = identity.listener(for: transport, to: endpoint.address, preferring: nil)
            else { return nil }
            return Flow(transport: transport, listener: listener.number, connection: 0, remote: endpoint)
        }
    }

    /// Of several flows of a phone the one on which the dialog was made, as long as it is there, else the best that leads to
    /// it.
    func bestFlow(of binding: DeviceID, for first: Flow, now: Moment) -> Flow? {
        let flows = registrar.bindings.flows(of: binding, now: now.instant).compactMap {
            registrar.bindings.flow(of: $0)
        }
        return flows.contains(first) ? first : flows.first { leadsToPhone($0) }
    }

    /// With the upstream's name where it leads to the upstream, so that its certificate can be checked: a dialog's token
    /// says no more than the address.
    func named(_ flow: Flow) -> Flow {
        guard flow.transport == .tls, !flow.isConnection, upstreamWatch.places.contains(flow.remote) else {
            return flow
        }
        return Flow(
            transport: flow.transport, listener: flow.listener, connection: 0, remote: flow.remote,
            server: upstreamWatch.server)
    }

    /// Where a registered phone without pushes is called back when its connection is gone (T9.2).
    func returnFlow(to binding: DeviceID, now: Moment) -> Flow? {
        guard let target = registrar.bindings.forkTarget(binding, now: now.instant),
            case .connection(let place) = hop(to: target),
            let listener = identity.listener(
                for: place.transport, to: place.endpoint.address, preferring: target.flow.listener)
        else { return nil }
        return Flow(transport: place.transport, listener: listener.number, connection: 0, remote: place.endpoint)
    }

    /// No connection is ever opened to the place that a phone once came from: nobody listens there.
    func leadsToPhone(_ flow: Flow) -> Bool { !flow.transport.isReliable || flow.isConnection }

    /// A peer names the place for its in-dialog requests in Contact or Record-Route. We go there only when that place is
    /// trusted, and not one of our own; else, and for names, the address its dialog came from serves.
    ///
    /// The transport that its URI names counts. Where it names none, a peer that came by a connection is reached by one.
    func place(_ next: RouteSet.Next, insteadOf flow: Flow, _ pass: DialogPass, now: Moment) -> Flow? {
        guard let hop = NextHop(next.target)?.staying(on: flow.transport), let (named, endpoint) = hop.numeric else {
            return flow
        }
        // An ACK cannot be tried twice.
        let isRefused = named == .tcp && lookups.withoutTCP.contains(endpoint, now: now.instant)
        let transport = isRefused && hop.transport == .tcp ? .udp : named
        guard isTrusted(endpoint), transport != flow.transport || endpoint != flow.remote,
            !identity.isUs(next.target), !identity.isOurs(transport, endpoint),
            pass.isFromPeer || endpoint == flow.remote || isKnownPort(endpoint),
            let listener = identity.listener(for: transport, to: endpoint.address, preferring: flow.listener)
        else { return flow }
        return Flow(transport: transport, listener: listener.number, connection: 0, remote: endpoint)
    }

    /// A large request goes to a peer by TCP unless datagrams were asked for; a phone is reached on its flow alone.
    func mayUseTCP(_ pass: DialogPass, _ next: RouteSet.Next) -> Bool {
        switch pass.receiver.party {
        case .phone, .caller: false
        case .peer, .upstream: !next.target.parameters.contains("transport") && settings.upstream?.transport != .udp
        }
    }

    /// What is tried when no connection can be made to a peer (RFC 3261 section 18.1.1): the datagram, where its dialog was
    /// made by one, or where it has not asked for a connection.
    func insteadOfConnection(_ hop: Flow, _ pass: DialogPass, _ next: RouteSet.Next) -> [ResolvedHop] {
        let side = pass.receiver
        guard hop.transport == .tcp, !hop.isConnection, side.party == .peer || side.party == .upstream else {
            return []
        }
        let knowsDatagrams = side.flow.transport == .udp && side.flow.remote.address == hop.remote.address
        guard knowsDatagrams || !next.target.parameters.contains("transport") else { return [] }
        return [ResolvedHop(transport: .udp, endpoint: hop.remote, isFixed: true)]
    }

    /// What a phone writes into Route or Request-URI opens no other port of a trusted host than those of SIP and those that
    /// the settings name (T9.4).
    func isKnownPort(_ endpoint: Endpoint) -> Bool {
        if endpoint.port == 5060 || endpoint.port == 5061 { return true }
        if let (_, upstream) = settings.upstream?.numeric, upstream == endpoint { return true }
        return upstreamWatch.places.contains(endpoint) || settings.trusted.contains(.endpoint(endpoint))
    }
}
