import Addressing
import Bytes
import Registration
import SIPGrammar
import SIPTransactions
package import Timekeeping

/// Sending requests on: to devices, to next hops with or without a name, and what is written into them (RFC 3261 section
/// 16.6).
extension ProxyEngine {
    /// Sends a request to one of our users' devices on the way that its registration gave (T9.1 to T9.4), or on the one that
    /// a trusted peer has written into Route (RFC 3261 section 16.6 item 6).
    func sendToDevice(_ incoming: IncomingRequest, for branch: Int, of call: Call, to target: ForkTarget, now: Moment) {
        call.fork.aimed(branch, way: target.way)
        if registrar.bindings.hasFurtherFlows(target.binding) { armSilence(of: call, now: now) }
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

    /// The Route of a trusted peer beyond ourselves; what anybody else writes there is not followed (T9.5).
    func furtherRoute(of incoming: IncomingRequest) -> RouteSet.Next? {
        guard incoming.isTrusted, incoming.request.frame.contains(.route),
            case .initial(var next) = route(of: incoming.request)
        else { return nil }
        next.routes.removeAll { route in
            NextHop(route.uri)?.numeric.map { identity.isOurs($0.0, $0.1) } ?? false
        }
        return next.routes.isEmpty ? nil : next
    }

    /// Sends a request to a next hop, after looking its name up when it has one.
    func sendToHop(
        _ incoming: IncomingRequest, _ edits: RequestEdits, for branch: Int, of call: Call, to hop: NextHop, now: Moment
    ) {
        if let (transport, endpoint) = hop.numeric {
            let candidates = [
                ResolvedHop(transport: transport, endpoint: endpoint, isFixed: hop.transport != nil)
            ]
            transmit(incoming, edits, for: branch, of: call, to: candidates, device: nil, now: now)
            return
        }
        lookUp(hop, toSend: .new(edits), for: branch, of: call)
    }

    func lookUp(_ hop: NextHop, toSend request: PendingResolution.Request, for branch: Int, of call: Call) {
        let ticket = newResolutionTicket()
        resolutions[ticket] = PendingResolution(call: call, branch: branch, request: request, hop: hop)
        call.fork.resolving(branch, ticket)
        act(.resolve(hop, ticket))
    }

    /// The addresses of a name, best first; empty when it has none or could not be looked up.
    package func resolved(_ ticket: ResolutionTicket, to hops: [ResolvedHop], now: Moment) {
        guard let pending = resolutions.removeValue(forKey: ticket) else {
            if lookedUp(ticket, hops, now: now) { return settle(now: now) }
            if let call = awayCallers.takeLookup(ticket) { callerFound(call, at: hops) }
            return settle(now: now)
        }
        if pending.hop == settings.upstream { noteUpstream(hops) }
        guard pending.call.fork.branches[pending.branch].isResolving(ticket),
            let incoming = revive(pending.call)
        else { return }
        switch pending.request {
        case .new(let edits):
            let named = upstreamWatch.health.preferred(pending.hop.transport != nil ? hops.map(\.fixed) : hops)
            transmit(incoming, edits, for: pending.branch, of: pending.call, to: named, device: nil, now: now)
        case .again(let sent): sendAgain(sent, pending.branch, of: pending.call, incoming, to: hops, now: now)
        }
        settle(now: now)
    }

    /// Sends to the first of these addresses that we can send to; the others are tried when it does not answer.
    func transmit(
        _ incoming: IncomingRequest, _ edits: RequestEdits, for branch: Int, of call: Call, to hops: [ResolvedHop],
        device: DeviceID?, now: Moment
    ) {
        var others = withoutOurs(hops)
        let isLoop = others.isEmpty && !hops.isEmpty
        while let hop = others.first {
            others.removeFirst()
            guard
                let listener = identity.listener(
                    for: hop.transport, to: hop.endpoint.address, preferring: incoming.flow.listener)
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

    /// RFC 3261 section 16.6, items 5 to 11.
    func transmit(
        _ incoming: IncomingRequest, _ given: RequestEdits, for branch: Int, of call: Call, on wished: Flow,
        device: DeviceID?, alternatives: [ResolvedHop], mayUseTCP: Bool = false, now: Moment
    ) {
        guard !identity.isOurs(wished.transport, wished.remote) else {
            branchFailed(branch, of: call, with: .loopDetected, now: now)
            return
        }
        // T9.9
        guard wished.transport.isSecure || !given.requestURI.isSIPS else {
            branchFailed(branch, of: call, with: .temporarilyUnavailable, now: now)
            return
        }
        guard let listener = identity.listener(for: wished), let client = transactions.makeClientTransaction() else {
            branchFailed(branch, of: call, with: .serviceUnavailable, now: now)
            return
        }
        let flow = Flow(
            transport: wished.transport, listener: listener.number, connection: wished.connection,
            remote: wished.remote, server: wished.server)
        let request = incoming.request
        var edits = given
        // The peer may send its own requests by a connection that is opened for this one (RFC 5923).
        let offersReuse = device == nil && flow.connection == 0 && flow.transport.isReliable
        edits.via = via(for: client, listener: listener, incoming, offersReuse: offersReuse)
        edits.maxForwards = (request.maxForwards ?? 71) &- (request.maxForwards == 0 ? 0 : 1)
        edits.topViaAddition = incoming.viaAddition
        edits.maxBreadth = UInt32(call.breadth)
        strip(&edits, of: incoming)
        if makesDialog(request) {
            edits.recordRoutes = recordRoutes(incoming, edits, to: flow, device: device, now: now)
        }
        let outgoing = request.forwarded(edits)
        if mayUseTCP, outgoing.bytes.count > Self.longestDatagram,
            let hops = hops(insteadOf: flow, alternatives, now: now)
        {
            transactions.discard(client)
            transmit(incoming, given, for: branch, of: call, to: hops, device: device, now: now)
            return
        }
        sent(branch, of: call, as: client, on: flow)
        ledger.invited(call.fork.branches[branch], now: now)
        journalSent(branch, of: call, edits, on: flow)
        let detour = alternatives.isEmpty ? nil : BranchLeg.Detour(alternatives, given, device: device)
        legs.start(client, BranchLeg(call: call, branch: branch, detour: detour))
        withTransactions { $0.start(client, request: outgoing, on: flow, now: now.instant, into: &$1) }
        if call.outgoing != nil { upstreamWatch.health.called(client, at: flow.remote, now: now.instant) }
    }

    /// Bytes that fit into a datagram whatever the way is like; larger requests go by TCP (RFC 3261 section 18.1.1).
    private static let longestDatagram = 1300

    /// What to try for a large request instead of a datagram: TCP where DNS says that it is spoken, else at the same place;
    /// at last the datagram. `nil` when all of those places have just shown that they have no TCP.
    private func hops(insteadOf flow: Flow, _ alternatives: [ResolvedHop], now: Moment) -> [ResolvedHop]? {
        guard flow.transport == .udp else { return nil }
        let named = alternatives.filter { $0.transport == .tcp }
        let here = ResolvedHop(transport: .tcp, endpoint: flow.remote, isFixed: true)
        let streams = (named.isEmpty ? [here] : named).filter {
            !withoutTCP.contains($0.endpoint, now: now.instant)
                && identity.listener(for: .tcp, to: $0.endpoint.address, preferring: nil) != nil
        }
        guard !streams.isEmpty else { return nil }
        let datagrams = alternatives.filter { $0.transport != .tcp }
        return streams + [ResolvedHop(transport: .udp, endpoint: flow.remote, isFixed: true)]
            + (named.isEmpty ? datagrams : datagrams.map(\.fixed))
    }

    /// Removes what must not go on, wherever the request goes: what a sender who is not trusted says of his identity (T9.7),
    /// anybody's credentials that are for us (T9.8), and a name that the dialog did not begin with (T20.7).
    func strip(_ edits: inout RequestEdits, of incoming: IncomingRequest) {
        if !incoming.isTrusted { edits.filter = settings.stripped }
        edits.ownRealms = ownRealms
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
            transactions.branchKey.appendBranch(for: client, loopHash: hash, to: &via)
            via.append(";rport")
            if offersReuse { via.append(";alias") }
        }
    }

    // MARK: Record-Route

    func makesDialog(_ request: SIPRequest) -> Bool {
        guard request.to.tag == nil else { return false }
        switch request.method {
        case .invite, .subscribe, .refer, .notify: return true
        case .ack, .bye, .cancel, .register, .options, .prack, .update, .info, .message, .publish, .other: return false
        }
    }

    /// One Record-Route, or two when the sides differ in transport or listener, so that each side can reach us its way.
    func recordRoutes(
        _ incoming: IncomingRequest, _ edits: RequestEdits, to flow: Flow, device: DeviceID?, now: Moment
    ) -> [ByteString] {
        guard let inbound = identity.listener(incoming.flow.listener), let outbound = identity.listener(flow.listener)
        else { return [] }
        let user = dialogToken(incoming, to: flow, device: device, now: now)
        let isSIPS = edits.requestURI.isSIPS
        let callee = Self.recordRoute(user, outbound, isSIPS: isSIPS)
        guard inbound.number != outbound.number else { return [callee] }
        return [callee, Self.recordRoute(user, inbound, isSIPS: isSIPS && inbound.transport.isSecure)]
    }

    private static func recordRoute(_ user: [UInt8], _ listener: Listener, isSIPS: Bool) -> ByteString {
        ByteString(capacity: user.count + listener.sentBy.count + 32) { value in
            value.append(isSIPS ? "<sips:" : "<sip:")
            value.append(user.span)
            value.append("@")
            value.append(listener.sentBy)
            if listener.transport != .udp {
                value.append(";transport=")
                // RFC 7118 has no other word for WebSocket over TLS.
                value.append(text: (listener.transport == .wss ? .ws : listener.transport).parameterName)
            }
            value.append(";lr>")
        }
    }

    /// The request of a call, which is read again from its bytes unless it came lately.
    func revive(_ call: Call) -> IncomingRequest? {
        guard let request = call.recent ?? reread(call.request) else { return nil }
        var incoming = IncomingRequest(request, on: call.source, isTrusted: call.isTrusted)
        if let server = call.server { incoming = incoming.matched(server) }
        incoming.sender = call.sender
        return incoming
    }

    func reread(_ request: KeptRequest) -> SIPRequest? { functions.reread(request.unpacked(functions.packing)) }
}

extension ByteString {
    /// Whether a URI asks for protected hops.
    fileprivate var isSIPS: Bool { count > 4 && self[4] == UInt8(ascii: ":") && self[3] | 0x20 == UInt8(ascii: "s") }
}
