import Addressing
import Bytes
import Calling
import LocationService
import ProxyPolicy
import PushDelivery
import PushPlanning
import Registration
import Routing
import SIPDialogs
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping

/// Forwards requests to devices and next hops, and changes their header fields (RFC 3261 section 16.6).
extension ProxyEngine {
    /// Sends a request to a device by the flow or Path of the device's registration (T9.1 to T9.4).
    ///
    /// The further Route values of a trusted peer's request follow the device's Path (RFC 3261 section 16.6 item 6). If
    /// the device may be asleep or has further flows, the engine waits only ``patience`` for its first response.
    func sendToDevice(
        _ incoming: IncomingRequest, for branch: Int, of call: ProxiedRequest, to target: ForkTarget,
        mayBeAsleep: Bool = false, now: Moment
    ) {
        call.fork.aimed(branch, routeHash: target.routeHash)
        if mayBeAsleep || registrar.bindings.hasFurtherFlows(target.binding) { armSilence(of: call, now: now) }
        var edits = RequestEdits(requestURI: target.requestURI, via: .empty, maxForwards: 70)
        edits.routes = target.path
        if CallerIdentity.wantsIDPrivacy(incoming.request.frame) { edits.removed = [.pAssertedIdentity] }
        if let further = furtherRoute(of: incoming) {
            edits.routes = target.path + further.texts
            if target.path.isEmpty {
                guard let hop = NextHop(further.target) else {
                    return branchFailed(branch, of: call, with: .temporarilyUnavailable, now: now)
                }
                return sendToHop(incoming, edits, for: branch, of: call, to: hop, now: now)
            }
        }
        switch hop(to: target) {
        case .flow(let flow, let otherwise):
            transmit(
                incoming, edits, for: branch, of: call, on: flow, device: target.id,
                alternatives: otherwise.map { [$0] } ?? [], now: now)
        case .connection(let hop):
            transmit(incoming, edits, for: branch, of: call, to: [hop], device: target.id, now: now)
        case .path(let hop): sendToHop(incoming, edits, for: branch, of: call, to: hop, now: now)
        case .asleep, .unreachable: branchFailed(branch, of: call, with: .temporarilyUnavailable, now: now)
        }
    }

    /// The Route values after the daemon's own value in a trusted peer's request; the daemon ignores the Route of other
    /// senders (T9.5).
    func furtherRoute(of incoming: IncomingRequest) -> RouteSet.Next? {
        guard incoming.isTrusted, incoming.request.frame.contains(.route),
            case .initial(var next) = route(of: incoming.request)
        else { return nil }
        next.routes.removeAll { route in
            NextHop(route.uri)?.numeric.map { identity.isOurs($0.0, $0.1) } ?? false
        }
        return next.routes.isEmpty ? nil : next
    }

    /// Sends a request to a next hop, after a DNS look-up if the hop has a host name.
    func sendToHop(
        _ incoming: IncomingRequest, _ edits: RequestEdits, for branch: Int, of call: ProxiedRequest, to hop: NextHop,
        now: Moment
    ) {
        if hasTenants, incoming.request.to.tag == nil, !mayReach(name: hop.host, from: home(of: call)) {
            return branchFailed(branch, of: call, with: .forbidden, now: now)
        }
        if let (transport, endpoint) = hop.numeric {
            let candidates = [
                ResolvedHop(transport: transport, endpoint: endpoint, isFixed: hop.transport != nil)
            ]
            transmit(incoming, edits, for: branch, of: call, to: candidates, device: nil, now: now)
            return
        }
        lookUp(hop, toSend: .new(edits), for: branch, of: call)
    }

    func lookUp(_ hop: NextHop, toSend request: Lookups.Request, for branch: Int, of call: ProxiedRequest) {
        call.fork.resolving(branch, lookUp(hop, for: .branch(branch, of: call, request, hop)))
    }

    /// Sends a request to one of the addresses that DNS has for the next hop.
    func found(
        _ hops: [ResolvedHop], of hop: NextHop, for branch: Int, of call: ProxiedRequest, _ incoming: IncomingRequest,
        _ edits: RequestEdits, now: Moment
    ) {
        let named = network.upstream.health.preferred(hop.transport != nil ? hops.map(\.fixed) : hops)
        transmit(incoming, edits, for: branch, of: call, to: named, device: nil, now: now)
    }

    /// Sends a request to the first address for which a listener exists, and keeps the other addresses for retries.
    func transmit(
        _ incoming: IncomingRequest, _ edits: RequestEdits, for branch: Int, of call: ProxiedRequest,
        to hops: [ResolvedHop],
        device: DeviceID?, now: Moment
    ) {
        var others = network.upstream.withoutOurs(hops, identity, log)
        let isLoop = others.isEmpty && !hops.isEmpty
        // Requests inside dialogs skip the tenant check, because the dialog's hop was checked earlier.
        if hasTenants, incoming.request.to.tag == nil {
            let domain = home(of: call)
            others.removeAll { !mayReach($0.endpoint, from: domain) }
        }
        while let hop = others.first {
            others.removeFirst()
            guard
                let listener = identity.listener(
                    for: hop.transport, to: hop.endpoint.address,
                    // A PBX gets requests from the listener that registered the user, because the PBX may accept calls
                    // only from the registered address.
                    preferring: isPBX(hop.endpoint) ? nil : incoming.flow.listener)
            else { continue }
            let flow = Flow(
                transport: hop.transport, listener: listener.number, connection: 0, remote: hop.endpoint,
                server: hop.server)
            transmit(
                incoming, edits, for: branch, of: call, on: flow, device: device, alternatives: others,
                mayUseTCP: !hop.isFixed, now: now)
            return
        }
        branchFailed(branch, of: call, with: isLoop ? .loopDetected : .serviceUnavailable, now: now)
    }

    /// Sends a request on one flow, with new Via and Record-Route fields (RFC 3261 section 16.6 items 5 to 11).
    func transmit(
        _ incoming: IncomingRequest, _ given: RequestEdits, for branch: Int, of call: ProxiedRequest, on wished: Flow,
        device: DeviceID?, alternatives: [ResolvedHop], mayUseTCP: Bool = false, now: Moment
    ) {
        guard !identity.isOurs(wished.transport, wished.remote) else {
            branchFailed(branch, of: call, with: .loopDetected, now: now)
            return
        }
        // The daemon refuses to send a `sips:` request without TLS (T9.9).
        guard wished.transport.isSecure || !given.requestURI.isSIPS else {
            branchFailed(branch, of: call, with: .temporarilyUnavailable, now: now)
            return
        }
        guard let listener = identity.listener(for: wished), let client = sip.makeClientTransaction()
        else {
            branchFailed(branch, of: call, with: .serviceUnavailable, now: now)
            return
        }
        let flow = Flow(
            transport: wished.transport, listener: listener.number, connection: wished.connection,
            remote: wished.remote, server: wished.server)
        let request = incoming.request
        var edits = given
        // The `alias` parameter allows the peer to send requests over the connection that the daemon opens (RFC 5923).
        let offersReuse = device == nil && flow.connection == 0 && flow.transport.isReliable
        edits.via = via(for: client, listener: listener, incoming, offersReuse: offersReuse)
        edits.maxForwards = (request.maxForwards ?? 71) &- (request.maxForwards == 0 ? 0 : 1)
        edits.topViaAddition = incoming.viaAddition
        edits.maxBreadth = UInt32(call.breadth)
        strip(&edits, of: incoming, to: flow.remote)
        // The node that sent the request over has written its Record-Route, which is good at every node.
        if request.makesDialog, !network.flows.isOfNode(incoming.flow) {
            edits.recordRoutes = recordRoutes(incoming, edits, to: flow, device: device, now: now)
        }
        let outgoing = request.forwarded(edits)
        if mayUseTCP, outgoing.bytes.count > Self.longestDatagram,
            let hops = hops(insteadOf: flow, alternatives, now: now)
        {
            sip.discard(client)
            transmit(incoming, given, for: branch, of: call, to: hops, device: device, now: now)
            return
        }
        sent(branch, of: call, as: client, on: flow)
        ledger.invited(call.fork.branches[branch], now: now)
        journalSent(branch, of: call, edits, on: flow)
        let detour = alternatives.isEmpty ? nil : BranchLeg.Detour(alternatives, given, device: device)
        sip.legs.start(client, BranchLeg(call, branch: branch, device: device, detour: detour))
        withTransactions { $0.start(client, request: outgoing, on: flow, now: now.instant, into: &$1) }
        if call.outgoing != nil {
            network.upstream.health.called(client, at: flow.remote, now: now.instant)
            if !upstreamUsers.pbxs.isEmpty { upstreamUsers.called(client, at: flow.remote, now: now.instant) }
        }
    }

    /// The maximum size in bytes of a datagram that fits every network path. Larger requests use TCP (RFC 3261 section
    /// 18.1.1).
    private static let longestDatagram = 1300

    /// The hops, in order, for a request that is too large for UDP; UDP is the last hop.
    ///
    /// TCP is tried at the addresses that DNS lists for TCP or, without such addresses, at the UDP address.
    ///
    /// - Returns: `nil` if all addresses have refused TCP lately.
    private func hops(insteadOf flow: Flow, _ alternatives: [ResolvedHop], now: Moment) -> [ResolvedHop]? {
        guard flow.transport == .udp else { return nil }
        let named = alternatives.filter { $0.transport == .tcp }
        let here = ResolvedHop(transport: .tcp, endpoint: flow.remote, isFixed: true)
        let streams = (named.isEmpty ? [here] : named).filter {
            !network.lookups.withoutTCP.contains($0.endpoint, now: now.instant)
                && identity.listener(for: .tcp, to: $0.endpoint.address, preferring: nil) != nil
        }
        guard !streams.isEmpty else { return nil }
        let datagrams = alternatives.filter { $0.transport != .tcp }
        return streams + [ResolvedHop(transport: .udp, endpoint: flow.remote, isFixed: true)]
            + (named.isEmpty ? datagrams : datagrams.map(\.fixed))
    }

    // MARK: Record-Route
}

/// Sends failed requests again, to another address of the same next hop (RFC 3263 section 4.3).
extension ProxyEngine {
    /// Remembers that an address refused TCP for a large request, so that later large requests to the address use UDP
    /// immediately.
    func noteRefusal(of leg: BranchLeg, now: Moment) {
        guard leg.detour?.hops.contains(where: { $0.transport == .udp && $0.isFixed }) == true,
            let flow = leg.call.fork.branches[leg.branch].flow, flow.transport == .tcp
        else { return }
        network.lookups.withoutTCP.add(flow.remote, now: now.instant)
    }

    /// The addresses that a failed request may be sent to.
    enum Failover {
        /// The request could not be sent, so any address of the hop and any transport may be tried (RFC 3261 section
        /// 18.1.1).
        case anyWay
        /// The request got 503 or no response. The server may have received the request, so only a different server may
        /// be tried (RFC 3263 section 4.3).
        case otherServers
    }

    /// Sends a failed request to the next address of its hop in a new transaction; returns false if no address is left.
    func retry(_ client: ClientTransactionID, _ leg: BranchLeg, _ failover: Failover, now: Moment) -> Bool {
        guard leg.call.fork.acceptsBranches else { return false }
        var leg = leg
        if failover == .otherServers { leg.turnsToOtherServers() }
        guard sendElsewhere(leg, now: now) else { return false }
        sip.legs.end(client)
        return true
    }

    /// Sends the request of a fork branch to the next address of its hop; returns false if no address is left.
    func sendElsewhere(_ leg: BranchLeg, now: Moment) -> Bool {
        guard let detour = leg.detour, let incoming = revive(leg.call) else { return false }
        transmit(
            incoming, detour.edits, for: leg.branch, of: leg.call, to: detour.hops, device: detour.device, now: now)
        return true
    }
}

/// Sends the daemon's own OPTIONS requests to phones and to the upstream.
extension ProxyEngine {
    /// Sends the daemon's own OPTIONS request, and returns false if the transaction table is full.
    ///
    /// The parameter `host` is the daemon's host in From and Call-ID. The parameter `contact` is the host and port in
    /// Contact; `nil` means no Contact.
    func ask(
        _ question: Question, at target: ByteString, as host: ByteString, contact: ByteString? = nil, on flow: Flow,
        by listener: Listener, now: Moment
    ) -> Bool {
        guard let client = sip.makeClientTransaction() else { return false }
        let request = QuestionRequest(
            target: target, host: host, contact: contact, via: via(for: client, listener: listener, loopHash: 0),
            number: functions.random())
        sip.legs.start(client, question)
        withTransactions { $0.start(client, request: request.outgoing, on: flow, now: now.instant, into: &$1) }
        return true
    }

    /// Whether an OPTIONS to a phone on the flow still has no response.
    func isAsked(by flow: Flow) -> Bool {
        sip.transactions.clients(on: flow).contains { if case .phone? = sip.legs.question($0) { true } else { false } }
    }
}

/// Changes the header fields of forwarded requests: Via, Record-Route and fields to remove (RFC 3261 section 16.6 items
/// 5 to 8).
extension ProxyEngine {
    /// Removes header fields that must not leave this daemon: an untrusted sender's identity (T9.7), credentials for
    /// the daemon's realms (T9.8), and a changed display name (T20.7).
    ///
    /// - Parameters:
    ///   - edits: the changes of the forwarded request, to which the function adds.
    ///   - incoming: the request.
    ///   - place: the receiver of the request; `nil` if the receiver is unknown.
    func strip(_ edits: inout RequestEdits, of incoming: IncomingRequest, to place: Endpoint?) {
        edits.strip(
            incoming, settings.stripped, realms: realmsToStrip(from: incoming, to: place),
            takesTokens: !settings.bearer.issuers.isEmpty)
        edits.fromStart = fromStart(of: incoming.request)
    }

    func via(
        for client: ClientTransactionID, listener: Listener, _ incoming: IncomingRequest, offersReuse: Bool = false
    ) -> ByteString {
        let hash = RequestValidation.loopHash(incoming.request, fromTrusted: incoming.isTrusted)
        return via(for: client, listener: listener, loopHash: hash, offersReuse: offersReuse)
    }

    func via(
        for client: ClientTransactionID, listener: Listener, loopHash hash: UInt64, offersReuse: Bool = false
    ) -> ByteString {
        ByteString(capacity: listener.sentBy.count + 88) { via in
            via.append("SIP/2.0/")
            via.append(text: listener.transport.viaName)
            via.append(" ")
            via.append(listener.sentBy)
            via.append(";branch=")
            sip.transactions.branchKey.appendBranch(for: client, loopHash: hash, to: &via)
            via.append(";rport")
            if offersReuse { via.append(";alias") }
        }
    }

}

/// Chooses the hop to a device by the flow of the device's registration and not by its Contact (T9.1 to T9.4).
extension ProxyEngine {
    func hop(to target: ForkTarget) -> DeviceHop {
        if network.flows.haveNodes, let hop = network.flows.nodeHop(to: target) { return hop }
        let isOfTrusted = isTrusted(target.flow)
        if isOfTrusted, let uri = target.pathURI {
            guard let hop = NextHop(uri) else { return .unreachable }
            if let (transport, endpoint) = hop.numeric, identity.isOurs(transport, endpoint) { return .unreachable }
            return .path(hop)
        }
        guard !target.isSecure || target.flow.transport.isSecure else { return .unreachable }
        guard target.isReachable, !identity.isOurs(target.flow.transport, target.flow.remote) else {
            return target.canBeWoken ? .asleep : .unreachable
        }
        guard target.flow.transport.isReliable else { return .flow(target.flow, otherwise: nil) }
        let otherwise = target.canBeWoken ? nil : returnHop(to: target, isOfTrusted: isOfTrusted)
        if target.flow.isConnection { return .flow(target.flow, otherwise: otherwise) }
        if let otherwise { return .connection(otherwise) }
        return target.canBeWoken ? .asleep : .unreachable
    }

    /// The hop to a phone without push token whose TCP connection is closed: the phone's source address, with the port
    /// in its Contact. The hop to a phone does not use TLS, because a phone has no certificate.
    ///
    /// - Returns: `nil` if the endpoint is the daemon's own, or a trusted peer with the phone's address.
    private func returnHop(to target: ForkTarget, isOfTrusted: Bool) -> ResolvedHop? {
        let endpoint = Endpoint(target.flow.remote.address, target.port)
        guard target.port != 0, target.flow.transport == .tcp, !identity.isOurs(target.flow.transport, endpoint),
            isOfTrusted || !isTrusted(endpoint)
        else { return nil }
        return ResolvedHop(transport: target.flow.transport, endpoint: endpoint)
    }
}

extension ByteString {
    /// Whether the URI has the scheme `sips`, which demands TLS on every hop.
    var isSIPS: Bool { count > 4 && self[4] == UInt8(ascii: ":") && self[3] | 0x20 == UInt8(ascii: "s") }
}
