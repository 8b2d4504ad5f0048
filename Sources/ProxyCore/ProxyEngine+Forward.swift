import Addressing
import Registration
import SIPGrammar
import SIPTransactions
package import Timekeeping

extension ProxyEngine {
    /// Sends a request to one of our users' devices on the flow it registered from.
    func send(_ incoming: IncomingRequest, to target: ForkTarget, fork: ForkID, branch: Int, now: Moment) {
        var edits = RequestEdits(requestURI: target.requestURI, via: .empty, maxForwards: 70)
        edits.routes = target.path
        edits.removed = [.proxyAuthorization]
        if CallerIdentity.wantsIDPrivacy(incoming.request) { edits.removed.append(.pAssertedIdentity) }
        transmit(
            incoming, edits, fork: fork, branch: branch, on: target.flow, device: target.id,
            alternatives: contactHops(of: target), now: now)
    }

    /// Where a device says it listens: tried when the connection it registered on is gone (RFC 3261 section 18.2.2 has
    /// the same for responses). Phones behind NAT cannot be reached so, others can.
    private func contactHops(of target: ForkTarget) -> [ResolvedHop] {
        guard target.flow.transport.isReliable, target.path.isEmpty,
            let (transport, endpoint) = NextHop(contactURI: target.requestURI)?.numeric
        else { return [] }
        return [ResolvedHop(transport: transport, endpoint: endpoint)]
    }

    /// Sends a request to a next hop, after looking its name up when it has one.
    func send(
        _ incoming: IncomingRequest, _ edits: RequestEdits, fork: ForkID, branch: Int, to hop: NextHop, now: Moment
    ) {
        if let (transport, endpoint) = hop.numeric {
            let candidates = [ResolvedHop(transport: transport, endpoint: endpoint)]
            transmit(incoming, edits, fork: fork, branch: branch, to: candidates, now: now)
            return
        }
        let ticket = ResolutionTicket(nextNumber())
        resolutions[ticket] = PendingResolution(fork: fork, branch: branch, edits: edits)
        forks[fork]?.fork.branches[branch].state = .resolving(ticket)
        act(.resolve(hop, ticket))
    }

    /// The addresses of a name, best first; empty when it has none or could not be looked up.
    package func resolved(_ ticket: ResolutionTicket, to hops: [ResolvedHop], now: Moment) {
        guard let pending = resolutions.removeValue(forKey: ticket), let context = forks[pending.fork],
            context.fork.branches[pending.branch].state == .resolving(ticket),
            let incoming = revive(context)
        else { return }
        transmit(incoming, pending.edits, fork: pending.fork, branch: pending.branch, to: hops, now: now)
        settle(now: now)
    }

    func transmit(
        _ incoming: IncomingRequest, _ edits: RequestEdits, fork: ForkID, branch: Int, to hops: [ResolvedHop],
        now: Moment
    ) {
        guard let first = hops.first,
            let listener = identity.listener(
                for: first.transport, to: first.endpoint.address, preferring: incoming.flow.listener)
        else {
            branchFailed(branch, of: fork, with: .serviceUnavailable, now: now)
            return
        }
        let flow = Flow(
            transport: first.transport, listener: listener.number, connection: 0, remote: first.endpoint)
        transmit(
            incoming, edits, fork: fork, branch: branch, on: flow, device: nil, alternatives: Array(hops.dropFirst()),
            now: now)
    }

    /// RFC 3261 section 16.6, items 5 to 11.
    func transmit(
        _ incoming: IncomingRequest, _ given: RequestEdits, fork: ForkID, branch: Int, on flow: Flow,
        device: BindingID?, alternatives: [ResolvedHop], now: Moment
    ) {
        guard let listener = identity.listener(flow.listener), let client = transactions.makeClientTransaction() else {
            branchFailed(branch, of: fork, with: .serviceUnavailable, now: now)
            return
        }
        let request = incoming.request
        var edits = given
        edits.via = via(for: client, listener: listener, incoming)
        edits.maxForwards = (request.maxForwards ?? 71) &- (request.maxForwards == 0 ? 0 : 1)
        edits.topViaAddition = incoming.viaAddition
        if makesDialog(request) { edits.recordRoutes = recordRoutes(incoming, to: flow, device: device) }
        let outgoing = request.forwarded(edits)
        forks[fork]?.fork.branches[branch].state = .calling(client)
        forks[fork]?.fork.branches[branch].flow = flow
        traceInvited(branch, of: fork, now: now)
        var leg = ClientLeg(fork: fork, branch: branch, alternatives: alternatives)
        if !alternatives.isEmpty { leg.edits = given }
        if request.method == .invite {
            leg.provisionalTimer = timers.schedule(
                .provisionalMissing(client), at: now.instant + settings.ringLimit)
        }
        legs[client] = leg
        withTransactions { $0.start(client, request: outgoing, on: flow, now: now.instant, into: &$1) }
    }

    func via(for client: ClientTransactionID, listener: Listener, _ incoming: IncomingRequest) -> ByteString {
        let hash = RequestValidation.loopHash(incoming.request, fromTrusted: isTrusted(incoming.flow.remote))
        var via: [UInt8] = []
        via.reserveCapacity(96)
        via.append("SIP/2.0/")
        via.append(contentsOf: listener.transport.viaName.utf8)
        via.append(" ")
        via.append(listener.sentBy)
        via.append(";branch=")
        via.append(transactions.viaBranch(for: client, loopHash: hash))
        via.append(";rport")
        return ByteString(via)
    }

    // MARK: Record-Route

    private func makesDialog(_ request: SIPRequest) -> Bool {
        guard request.to.tag == nil else { return false }
        switch request.method {
        case .invite, .subscribe, .refer, .notify: return true
        case .ack, .bye, .cancel, .register, .options, .prack, .update, .info, .message, .publish, .other: return false
        }
    }

    /// One Record-Route, or two when the sides differ in transport or listener, so that each side can reach us its way.
    private func recordRoutes(_ incoming: IncomingRequest, to flow: Flow, device: BindingID?) -> [ByteString] {
        let caller = DialogSide(flow: incoming.flow, binding: callersBinding(incoming))
        let token = DialogToken(caller: caller, callee: DialogSide(flow: flow, binding: device))
        let user = token.sealed(by: functions.seal)
        guard let inbound = identity.listener(incoming.flow.listener), let outbound = identity.listener(flow.listener)
        else { return [] }
        let callee = Self.recordRoute(user, outbound)
        guard inbound.number != outbound.number else { return [callee] }
        return [callee, Self.recordRoute(user, inbound)]
    }

    /// The binding of a phone that calls, so that it is found again should it move during the call.
    private func callersBinding(_ incoming: IncomingRequest) -> BindingID? {
        guard !isTrusted(incoming.flow.remote), let home = identity.home(of: incoming.request.from.uri),
            let aor = AddressOfRecord(incoming.request.from.uri, home: home)
        else { return nil }
        return bindings.bindings(for: aor, now: .distantPast).first { $0.flow == incoming.flow }?.id
    }

    private static func recordRoute(_ user: [UInt8], _ listener: Listener) -> ByteString {
        var value: [UInt8] = []
        value.reserveCapacity(user.count + 48)
        value.append("<sip:")
        value.append(contentsOf: user)
        value.append("@")
        value.append(listener.sentBy)
        if listener.transport != .udp {
            value.append(";transport=")
            value.append(contentsOf: listener.transport.parameterName.utf8)
        }
        value.append(";lr>")
        return ByteString(value)
    }

    /// The request of a fork, read again from its bytes.
    func revive(_ context: ForkContext) -> IncomingRequest? {
        guard let request = functions.reread(context.request) else { return nil }
        return IncomingRequest(request, on: context.source).matched(context.server)
    }
}
