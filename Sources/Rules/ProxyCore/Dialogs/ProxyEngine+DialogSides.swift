import Addressing
import Bytes
import Calling
import LocationService
import ProxyPolicy
import Registration
import Routing
import SIPDialogs
import SIPGrammar
import SIPTransactions
import Timekeeping

/// Identifies the two sides of a dialog, and checks that a request comes from the side that its tag names (T20.2,
/// T20.4).
extension ProxyEngine {
    // MARK: When the dialog is made

    /// Makes the sealed dialog token for our Record-Route.
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

    /// The binding of the phone that makes the call. If the phone moves during the call, its new flow is found by this
    /// binding.
    func callersBinding(_ incoming: IncomingRequest) -> DeviceID? {
        identity.callingUser(of: incoming).flatMap { aor in registrar.bindings.device(of: aor) { $0 == incoming.flow } }
    }

    /// A 48-bit hash of an AOR, which stands for the user in a dialog token. The hash is cryptographic and the token is
    /// sealed, so nobody can choose a user name with the hash of another user.
    private func hash(of aor: AddressOfRecord) -> UInt64 {
        var text = aor.user.array
        text.append("@")
        text.append(aor.host)
        let hash = functions.digest.hash(.sha256, text).prefix(6).reduce(0 as UInt64) { $0 << 8 | UInt64($1) }
        return max(hash, 1)
    }

    // MARK: When it is used

    /// Whether a request inside a dialog may pass. If the result is false, this method has answered the request: with
    /// 407 if a password can prove the sender, otherwise with 403.
    func admits(_ incoming: IncomingRequest, _ pass: DialogPass, now: Moment) -> Bool {
        if isAtHome(incoming.flow, pass, now: now) { return true }
        guard settings.authenticates, let owner = owner(of: pass.sender, asking: incoming) else {
            refuse(incoming, .forbidden, now: now)
            return false
        }
        switch checkCredentials(of: incoming, as: .proxy, home: owner.home, owner: owner.user, now: now) {
        case .authenticated(let user):
            guard owner.isTheOne(AddressOfRecord(user: user.name, host: owner.home)) else { break }
            dialogs.provedPlaces.note(incoming.flow, for: pass)
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

    /// Whether a request came on a flow that is known to belong to its side of the dialog.
    func isAtHome(_ flow: Flow, _ pass: DialogPass, now: Moment) -> Bool {
        let side = pass.sender
        switch side.party {
        case .peer: return isPeer(flow)
        case .upstream: return isPeer(flow) || side.flow.remote.speaks(as: flow.remote, settings)
        case .phone(let id):
            if isSame(flow, side.flow) || isProved(flow, pass) { return true }
            guard let present = registrar.bindings.flow(of: id) else { return false }
            if isSame(flow, present) { return true }
            // A trusted edge vouches for the phone behind it, from whatever port the edge sends.
            if isTrusted(present) { return isTrusted(flow) }
            // If the user of this side is registered on another flow, the user has shown the password on that flow.
            guard let binding = registrar.bindings.binding(id) else { return false }
            return registrar.bindings.bindings(for: binding.aor, now: now.instant).contains { isSame(flow, $0.flow) }
        case .caller: return isSame(flow, side.flow) || isProved(flow, pass)
        }
    }

    private func isProved(_ flow: Flow, _ pass: DialogPass) -> Bool {
        dialogs.provedPlaces[pass].map { isSame(flow, $0) } ?? false
    }

    /// Whether two flows are the same: over UDP, the same remote endpoint; otherwise, the same open connection. The
    /// daemon never reuses a connection number.
    func isSame(_ flow: Flow, _ other: Flow) -> Bool {
        guard flow.transport == other.transport, flow.remote == other.remote else { return false }
        return !flow.transport.isReliable || (flow.isConnection && flow.connection == other.connection)
    }

    // MARK: The name in From

    /// Whether From has the sender's name from the beginning of the dialog (T20.7), or names the user that the sender
    /// has registered.
    ///
    /// A BYE, PRACK, ACK or CANCEL passes with any From, because a phone does not show the From of these requests.
    func keepsItsName(_ incoming: IncomingRequest, _ pass: DialogPass) -> Bool {
        let request = incoming.request
        guard Self.showsName(request.method), let names = pass.token.names else { return true }
        if names.admits(request.from, ofCaller: pass.isFromCaller) { return true }
        guard !pass.isFromCaller, case .phone(let id) = pass.sender.party,
            let home = identity.home(of: request.from.uri)
        else { return false }
        // The INVITE called the callee by another name, but the callee writes its own name into From (RFC 4916).
        return registrar.bindings.binding(id)?.aor == AddressOfRecord(request.from.uri, home: home)
    }

    private static func showsName(_ method: Method) -> Bool {
        switch method {
        case .bye, .prack, .ack, .cancel: false
        case .invite, .register, .options, .update, .info, .refer, .message, .subscribe, .notify, .publish, .other: true
        }
    }

    /// The index in From at which the forwarded value begins. The value is 0 for the whole From. If the callee has
    /// changed its display name since the dialog began, the index is after that name, which is cut off (T20.7).
    func fromStart(of request: SIPRequest) -> Int {
        guard request.to.tag != nil, request.from.displayName != nil, Self.showsName(request.method),
            case .dialog(let pass, _) = route(of: request), !pass.isFromCaller, !pass.isFromPeer,
            pass.token.names?.isForeign(request.from.displayName) == true
        else { return 0 }
        return request.from.namelessStart
    }

    // MARK: The trusted side

    /// Whether the flow's remote endpoint is trusted or is the upstream.
    func isPeer(_ flow: Flow) -> Bool {
        isTrusted(flow) || network.upstream.isSource(flow.remote, settings)
    }

    // MARK: Whose password

    private struct Owner {
        let home: ByteString
        /// The user's name; `nil` if only the hash of the AOR is known.
        let user: ByteString?
        let isTheOne: (AddressOfRecord) -> Bool
    }

    /// The user whose password proves that a request comes from this side of the dialog; `nil` if a password cannot
    /// prove it.
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

/// Finds the flow on which a request inside a dialog is sent.
extension ProxyEngine {
    /// The flow to the receiver of a request inside a dialog; `nil` if no such flow exists now.
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
            // The binding's present flow shows whether the connection of the dialog has ended in the meantime.
            let first = present == side.flow.closed ? nil : side.flow
            guard let flow = [present, first].lazy.compactMap({ $0 }).first(where: { leadsToPhone($0) }) else {
                return returnFlow(to: binding, now: now)
            }
            // For a phone behind a trusted edge, the edge's Contact or Record-Route says where the phone is.
            return isTrusted(flow) ? place(next, insteadOf: flow, pass, now: now) : flow
        case .caller: return leadsToPhone(side.flow) ? side.flow : nil
        case .peer, .upstream:
            if let place = place(next, insteadOf: side.flow, pass, now: now), !place.isClosed { return named(place) }
            // The connection of this side ended with an earlier run of the program.
            guard let (transport, endpoint) = settings.upstream?.numeric,
                let listener = identity.listener(for: transport, to: endpoint.address, preferring: nil)
            else { return nil }
            return Flow(transport: transport, listener: listener.number, connection: 0, remote: endpoint)
        }
    }

    /// The flow on which to reach a phone that has several flows: the flow on which the dialog was made while it
    /// exists, otherwise the best flow that leads to the phone.
    func bestFlow(of binding: DeviceID, for first: Flow, now: Moment) -> Flow? {
        let flows = registrar.bindings.flows(of: binding, now: now.instant).compactMap {
            registrar.bindings.flow(of: $0)
        }
        return flows.contains(first) ? first : flows.first { leadsToPhone($0) }
    }

    /// Adds the upstream's host name to a flow that leads to the upstream. The host name is needed to check the
    /// upstream's certificate, and a dialog token has only the address.
    func named(_ flow: Flow) -> Flow {
        guard flow.transport == .tls, !flow.isConnection, network.upstream.places.contains(flow.remote) else {
            return flow
        }
        return Flow(
            transport: flow.transport, listener: flow.listener, connection: 0, remote: flow.remote,
            server: network.upstream.server)
    }

    /// The flow on which the proxy calls back a registered phone without pushes, after the phone's connection has ended
    /// (T9.2).
    func returnFlow(to binding: DeviceID, now: Moment) -> Flow? {
        guard let target = registrar.bindings.forkTarget(binding, now: now.instant),
            case .connection(let place) = hop(to: target),
            let listener = identity.listener(
                for: place.transport, to: place.endpoint.address, preferring: target.flow.listener)
        else { return nil }
        return Flow(transport: place.transport, listener: listener.number, connection: 0, remote: place.endpoint)
    }

    /// Whether the proxy may send on this flow to a phone. The proxy never opens a connection to the source address of
    /// a phone, because nobody listens there.
    func leadsToPhone(_ flow: Flow) -> Bool { !flow.transport.isReliable || flow.isConnection }

    /// The flow to the address that a peer names in Contact or Record-Route for its requests inside the dialog. The
    /// proxy uses this address only if it is trusted and is not this proxy. Otherwise, and for host names, the proxy
    /// uses the address from which the dialog came.
    ///
    /// The transport is the one in the peer's URI. If the URI names no transport, a peer that came over a connection is
    /// reached over a connection.
    func place(_ next: RouteSet.Next, insteadOf flow: Flow, _ pass: DialogPass, now: Moment) -> Flow? {
        guard let hop = NextHop(next.target)?.staying(on: flow.transport), let (named, endpoint) = hop.numeric else {
            return flow
        }
        // An ACK cannot be retried by its sender. Therefore UDP is preferred if a TCP connection failed lately.
        let isRefused = named == .tcp && network.lookups.withoutTCP.contains(endpoint, now: now.instant)
        let transport = isRefused && hop.transport == .tcp ? .udp : named
        guard isTrusted(endpoint), transport != flow.transport || endpoint != flow.remote,
            !identity.isUs(next.target), !identity.isOurs(transport, endpoint),
            pass.isFromPeer || endpoint == flow.remote || isKnownPort(endpoint),
            let listener = identity.listener(for: transport, to: endpoint.address, preferring: flow.listener)
        else { return flow }
        return Flow(transport: transport, listener: listener.number, connection: 0, remote: endpoint)
    }

    /// Whether a large request to a peer may be sent over TCP: yes, unless the peer asked for UDP. A phone is reached
    /// only on its own flow, so the value is false for phones.
    func mayUseTCP(_ pass: DialogPass, _ next: RouteSet.Next) -> Bool {
        switch pass.receiver.party {
        case .phone, .caller: false
        case .peer, .upstream: !next.target.parameters.contains("transport") && settings.upstream?.transport != .udp
        }
    }

    /// The UDP hop to try when a TCP connection to a peer fails (RFC 3261 section 18.1.1). UDP is tried if the dialog
    /// began over UDP, or if the peer's URI names no transport.
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
        // Outside a dialog, the token has no effect, no matter who sends the token (T20.3).
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

    /// Extends the life of a dialog: a request in the second half of its life gives the dialog a full new life.
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
