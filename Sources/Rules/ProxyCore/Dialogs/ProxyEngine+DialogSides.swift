import Addressing
import Bytes
import Registration
import SIPGrammar
import SIPTransactions
import Timekeeping

/// Knows the two sides of a dialog, and whether a request comes from the side that its tag names (T20.2, T20.4).
extension ProxyEngine {
    // MARK: When the dialog is made

    /// The sealed dialog token for our Record-Route.
    func dialogToken(_ incoming: IncomingRequest, to flow: Flow, device: DeviceID?, now: Moment) -> [UInt8] {
        let callee = device.map { DialogSide(.phone($0), on: flow) } ?? DialogSide(.upstream, on: flow)
        let caller = callersSide(incoming)
        let (holdsCaller, holdsCallee) = (caller.party.isPhone, callee.party.isPhone)
        var names: DialogNames?
        if holdsCaller || holdsCallee {
            names = DialogNames(
                of: incoming.request, sip.transactions.branchKey, holdsCaller: holdsCaller, holdsCallee: holdsCallee)
        }
        let token = DialogToken(made: now.date, caller: caller, callee: callee, names: names)
        return functions.seal.seal(
            token.encoded(in: dialogs.run), incoming.request.callID, incoming.request.from.tag ?? .empty)
    }

    private func callersSide(_ incoming: IncomingRequest) -> DialogSide {
        if isTrusted(incoming.flow) { return DialogSide(.peer, on: incoming.flow) }
        if let binding = callersBinding(incoming) { return DialogSide(.phone(binding), on: incoming.flow) }
        return DialogSide(.caller(incoming.sender.map { hash(of: $0) } ?? 0), on: incoming.flow)
    }

    /// The binding of the phone that calls. It finds the phone again if the phone moves during the call.
    func callersBinding(_ incoming: IncomingRequest) -> DeviceID? {
        identity.callingUser(of: incoming).flatMap { aor in registrar.bindings.device(of: aor) { $0 == incoming.flow } }
    }

    /// Six bytes that name an AOR in a token. Nobody can choose a user name that has the same bytes as another,
    /// because the hash is cryptographic and the token is sealed.
    private func hash(of aor: AddressOfRecord) -> UInt64 {
        var text = aor.user.array
        text.append("@")
        text.append(aor.host)
        let hash = functions.digest.hash(.sha256, text).prefix(6).reduce(0 as UInt64) { $0 << 8 | UInt64($1) }
        return max(hash, 1)
    }

    // MARK: When it is used

    /// Whether a request may pass. If not, it was answered: with 407 if a password can prove the sender, else with
    /// 403.
    func admits(_ incoming: IncomingRequest, _ pass: DialogPass, now: Moment) -> Bool {
        if isAtHome(incoming.flow, pass, now: now) { return true }
        guard settings.authenticates, let owner = owner(of: pass.sender, asking: incoming) else {
            refuse(incoming, .forbidden, now: now)
            return false
        }
        switch checkCredentials(of: incoming, as: .proxy, home: owner.home, owner: owner.user, now: now) {
        case .authenticated(let user):
            guard owner.isTheOne(AddressOfRecord(user: user.name, host: owner.home)) else { break }
            dialogs.provedPlaces.note(
                incoming.flow, for: ProvedPlaces.Key(digest: pass.digest, isCaller: pass.isFromCaller))
            return true
        case .forbidden: break
        case .limited(let wait):
            refuse(incoming, .serviceUnavailable, fields: [Self.retryAfter(wait)], now: now)
            return false
        case .asking(let name) where waits(incoming, for: AddressOfRecord(user: name, host: owner.home), now: now):
            return false
        case .asking, .unavailable:
            refuse(incoming, .serviceUnavailable, fields: [retryLater], now: now)
            return false
        case .challenge(let reason):
            challenge(incoming, reason, as: .proxy, home: owner.home, now: now)
            return false
        }
        refuse(incoming, .forbidden, now: now)
        return false
    }

    /// Whether the flow of a request is a known flow of its side of the dialog.
    func isAtHome(_ flow: Flow, _ pass: DialogPass, now: Moment) -> Bool {
        let side = pass.sender
        switch side.party {
        case .peer: return isPeer(flow)
        case .upstream: return isPeer(flow) || speaksFor(side.flow.remote, flow.remote)
        case .phone(let id):
            if isSame(flow, side.flow) || isProved(flow, pass) { return true }
            guard let present = registrar.bindings.flow(of: id) else { return false }
            if isSame(flow, present) { return true }
            // Behind a trusted edge, the edge answers for the phone, whatever port the edge sends from.
            if isTrusted(present) { return isTrusted(flow) }
            // On any other flow where its user is registered, the user has been proved as well.
            guard let binding = registrar.bindings.binding(id) else { return false }
            return registrar.bindings.bindings(for: binding.aor, now: now.instant).contains { isSame(flow, $0.flow) }
        case .caller: return isSame(flow, side.flow) || isProved(flow, pass)
        }
    }

    private func isProved(_ flow: Flow, _ pass: DialogPass) -> Bool {
        guard let place = dialogs.provedPlaces[ProvedPlaces.Key(digest: pass.digest, isCaller: pass.isFromCaller)]
        else {
            return false
        }
        return isSame(flow, place)
    }

    /// Whether two flows are the same: one source over UDP, or one open connection. Connection numbers are never
    /// reused.
    func isSame(_ flow: Flow, _ other: Flow) -> Bool {
        guard flow.transport == other.transport, flow.remote == other.remote else { return false }
        return !flow.transport.isReliable || (flow.isConnection && flow.connection == other.connection)
    }

    // MARK: The name in From

    /// Whether From is the sender's name from when the dialog was made (T20.7), or the user that the sender has
    /// registered as.
    ///
    /// A BYE, PRACK, ACK or CANCEL shows nobody a name, and passes with any From.
    func keepsItsName(_ incoming: IncomingRequest, _ pass: DialogPass) -> Bool {
        let request = incoming.request
        guard Self.showsName(request.method), let names = pass.token.names else { return true }
        if names.admits(request.from, ofCaller: pass.isFromCaller) { return true }
        guard !pass.isFromCaller, case .phone(let id) = pass.sender.party,
            let home = identity.home(of: request.from.uri)
        else { return false }
        // The callee was called by another name, and writes its own (RFC 4916).
        return registrar.bindings.binding(id)?.aor == AddressOfRecord(request.from.uri, home: home)
    }

    private static func showsName(_ method: Method) -> Bool {
        switch method {
        case .bye, .prack, .ack, .cancel: false
        case .invite, .register, .options, .update, .info, .refer, .message, .subscribe, .notify, .publish, .other: true
        }
    }

    /// Where the From that is sent on begins, or 0 for all of it. It begins behind the display name if the callee
    /// writes a name that is not from the dialog's beginning (T20.7).
    func fromStart(of request: SIPRequest) -> Int {
        guard request.to.tag != nil, request.from.displayName != nil, Self.showsName(request.method),
            case .dialog(let pass, _) = route(of: request), !pass.isFromCaller, !pass.isFromPeer,
            pass.token.names?.isForeign(request.from.displayName) == true
        else { return 0 }
        return request.from.namelessStart
    }

    // MARK: The trusted side

    /// Whether the flow comes from a trusted address or from the upstream.
    func isPeer(_ flow: Flow) -> Bool {
        if isTrusted(flow) { return true }
        let source = flow.remote
        if let (_, endpoint) = settings.upstream?.numeric { return speaksFor(endpoint, source) }
        return network.upstream.places.contains { speaksFor($0, source) }
    }

    /// Whether a server that is reached at one port may send from another port. It may, unless only one port of its
    /// address is trusted because phones have the others.
    func speaksFor(_ server: Endpoint, _ source: Endpoint) -> Bool {
        server.speaks(as: source, hasOnePort: hasOnePort(source.address))
    }

    /// Whether only one port of an address is trusted, because phones have the other ports.
    func hasOnePort(_ address: IPAddress) -> Bool { settings.trusted.contains { $0.isOnePort(of: address) } }

    /// The upstream's name was resolved. Requests from these addresses also come from the upstream.
    func noteUpstream(_ hops: [ResolvedHop]) {
        if let server = hops.first(where: { $0.server != .none })?.server { network.upstream.server = server }
        for hop in hops where !network.upstream.places.contains(hop.endpoint) {
            network.upstream.places.append(hop.endpoint)
        }
        let excess = network.upstream.places.count - Self.upstreamLimit
        if excess > 0 { network.upstream.places.removeFirst(excess) }
    }

    private static let upstreamLimit = 64

    // MARK: Whose password

    private struct Owner {
        let home: ByteString
        /// `nil` if only the hash is known.
        let user: ByteString?
        let isTheOne: (AddressOfRecord) -> Bool
    }

    /// The user whose password proves that a request comes from this side of the dialog; `nil` if no password can.
    private func owner(of side: DialogSide, asking incoming: IncomingRequest) -> Owner? {
        switch side.party {
        case .peer, .upstream: return nil
        case .phone(let id):
            guard let aor = registrar.bindings.binding(id)?.aor else { return nil }
            return Owner(home: aor.host, user: aor.user) { $0 == aor }
        case .caller(let hash):
            guard hash != 0, let home = identity.home(of: incoming.request.from.uri) ?? identity.domains.first else {
                return nil
            }
            return Owner(home: home, user: nil) { [self] in self.hash(of: $0) == hash }
        }
    }
}

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
        guard flow.transport == .tls, !flow.isConnection, network.upstream.places.contains(flow.remote) else {
            return flow
        }
        return Flow(
            transport: flow.transport, listener: flow.listener, connection: 0, remote: flow.remote,
            server: network.upstream.server)
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
        let isRefused = named == .tcp && network.lookups.withoutTCP.contains(endpoint, now: now.instant)
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
        return network.upstream.places.contains(endpoint) || settings.trusted.contains(.endpoint(endpoint))
    }
}

/// Reads our token in the Route of a request inside a dialog.
extension ProxyEngine {
    /// Whether the Route of a request has our dialog token, a forged token or none, and where the request goes next.
    func route(of request: SIPRequest) -> RouteSet.Kind {
        RouteSet.preprocess(request, identity: identity) { pass($0, of: request) }
    }

    /// Opens the token for the request that brings it; `nil` if the token is not ours, or was made for another call.
    func pass(_ text: ByteString, of request: SIPRequest) -> DialogPass? {
        // Outside a dialog, the token means nothing, no matter who sends it (T20.3).
        guard let toTag = request.to.tag, !toTag.isEmpty else { return nil }
        let fromTag = request.from.tag ?? .empty
        if let opened = functions.seal.open(text, request.callID, fromTag) {
            return pass(opened, isFromCaller: true)
        }
        return functions.seal.open(text, request.callID, toTag).flatMap { pass($0, isFromCaller: false) }
    }

    func pass(_ opened: DialogSeal.Opened, isFromCaller: Bool) -> DialogPass? {
        DialogToken(opened.plain, in: dialogs.run).map {
            DialogPass(token: $0, isFromCaller: isFromCaller, digest: opened.digest)
        }
    }

    func isAlive(_ pass: DialogPass, now: Moment) -> Bool {
        now.date <= dialogs.renewals.end(of: pass.digest, made: pass.token.made, lifetime: settings.call.dialogLifetime)
    }

    /// A request in the second half of a dialog's life makes the dialog live as long as a new one.
    func renew(_ pass: DialogPass, now: Moment) {
        let lifetime = settings.call.dialogLifetime
        let end = dialogs.renewals.end(of: pass.digest, made: pass.token.made, lifetime: lifetime)
        let rest = end - now.date
        guard rest + rest < lifetime else { return }
        let until = now.date + lifetime
        dialogs.renewals.renew(pass.digest, until: until, now: now.date)
        act(.record([.dialogRenewed(pass.digest, until: until)]))
    }
}
