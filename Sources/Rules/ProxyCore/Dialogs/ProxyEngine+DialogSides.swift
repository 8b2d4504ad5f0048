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

/// Identifies the two sides of a dialog, and checks that a request comes from the side that its From tag names (T20.2,
/// T20.4).
extension ProxyEngine {
    /// Whether a request inside a dialog comes from the side that its From tag names. If ``admits(_:_:now:)`` returns
    /// false, the engine has answered the request with 407 or, if no password can authenticate the sender, with 403.
    func admits(_ incoming: IncomingRequest, _ pass: DialogPass, now: Moment) -> Bool {
        if isAtHome(incoming.flow, pass, now: now) { return true }
        guard settings.authenticates, let owner = owner(of: pass.sender, asking: incoming) else {
            refuse(incoming, .forbidden, now: now)
            return false
        }
        switch checkCredentials(of: incoming, as: .proxy, home: owner.home, owner: owner.user, now: now) {
        case .authenticated(let user, _):
            guard owner.isTheOne(AddressOfRecord(user: user.name, host: owner.home)) else { break }
            dialogs.provedPlaces.note(incoming.flow, for: pass)
            return true
        case .forbidden: break
        case .limited(let wait):
            refuse(incoming, .serviceUnavailable, fields: [Self.retryAfter(wait)], now: now)
            return false
        case .asking(let name) where waits(incoming, for: AddressOfRecord(user: name, host: owner.home), now: now):
            return false
        case .asking, .unavailable, .awaitingKeys:
            refuse(incoming, .serviceUnavailable, fields: [retryLater], now: now)
            return false
        case .challenge(let reason):
            challenge(incoming, reason, as: .proxy, home: owner.home, now: now)
            return false
        }
        refuse(incoming, .forbidden, now: now)
        return false
    }

    /// Whether the flow belongs to the side that the request's From tag names.
    func isAtHome(_ flow: Flow, _ pass: DialogPass, now: Moment) -> Bool {
        let side = pass.sender
        switch side.party {
        case .peer: return isPeer(flow, in: pass)
        case .upstream:
            return isPeer(flow, in: pass) || side.flow.remote.speaks(as: flow.remote, settings.trusted)
        case .phone(let id):
            if isSame(flow, side.flow) || isProved(flow, pass) { return true }
            guard let present = registrar.bindings.flow(of: id) else { return false }
            if isSame(flow, present) { return true }
            // A request from a phone behind a trusted edge proxy may come from any trusted address, because the edge
            // proxy has checked the phone.
            if isTrusted(present, in: pass) { return isTrusted(flow, in: pass) }
            // A request inside a dialog may come on any registered flow of the phone's user, because a registered flow
            // is authenticated.
            guard let binding = registrar.bindings.binding(id) else { return false }
            return registrar.bindings.bindings(for: binding.aor, now: now.instant).contains { isSame(flow, $0.flow) }
        case .caller: return isSame(flow, side.flow) || isProved(flow, pass)
        }
    }

    private func isProved(_ flow: Flow, _ pass: DialogPass) -> Bool {
        dialogs.provedPlaces[pass].map { isSame(flow, $0) } ?? false
    }

    /// Whether two flows are the same: over UDP, flows with the same remote endpoint; over TCP or TLS, the same open
    /// connection. Equal connection numbers mean the same connection, because the daemon never reuses a number.
    func isSame(_ flow: Flow, _ other: Flow) -> Bool {
        guard flow.transport == other.transport, flow.remote == other.remote else { return false }
        return !flow.transport.isReliable || (flow.isConnection && flow.connection == other.connection)
    }

    // MARK: The caller's name in From

    /// Whether a request inside a dialog has a permitted From: the sender's name at the start of the dialog, or the
    /// sender's registered user (T20.7).
    ///
    /// BYE, PRACK, ACK and CANCEL may have any From, because phones do not show the From of these methods.
    func keepsItsName(_ incoming: IncomingRequest, _ pass: DialogPass) -> Bool {
        let request = incoming.request
        guard Self.showsName(request.method), let names = pass.token.names else { return true }
        if names.admits(request.from, ofCaller: pass.isFromCaller) { return true }
        guard !pass.isFromCaller, case .phone(let id) = pass.sender.party,
            let home = identity.home(of: request.from.uri)
        else { return false }
        // A callee may write its own AOR into From, even if the INVITE named another AOR of the callee (RFC 4916).
        return registrar.bindings.binding(id)?.aor == AddressOfRecord(request.from.uri, home: home)
    }

    private static func showsName(_ method: Method) -> Bool {
        switch method {
        case .bye, .prack, .ack, .cancel: false
        case .invite, .register, .options, .update, .info, .refer, .message, .subscribe, .notify, .publish, .other: true
        }
    }

    /// The index at which the forwarded From value begins. The index is 0, or the end of the display name if the name
    /// has changed since the dialog began (T20.7).
    func fromStart(of request: SIPRequest) -> Int {
        guard request.to.tag != nil, request.from.displayName != nil, Self.showsName(request.method),
            case .dialog(let pass, _) = route(of: request), !pass.isFromCaller, !pass.isFromPeer,
            pass.token.names?.isForeign(request.from.displayName) == true
        else { return 0 }
        return request.from.namelessStart
    }

    // MARK: The trusted side

    /// Whether the flow's remote endpoint is the upstream, or a trusted peer that may take part in the dialog.
    func isPeer(_ flow: Flow, in pass: DialogPass) -> Bool {
        if isTrusted(flow, in: pass) { return true }
        return belongTogether(home(of: pass), nil)
            && network.upstream.isSource(flow.remote, of: settings.upstream, settings.trusted)
    }

    // MARK: Whose password

    private struct Owner {
        let home: ByteString
        /// The user's name; `nil` if only the hash of the AOR is known.
        let user: ByteString?
        let isTheOne: (AddressOfRecord) -> Bool
    }

    /// The user on the given side of the dialog, whose password proves the sender of a request; `nil` if no password
    /// can prove the sender.
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
    /// The flow on which a request inside a dialog is sent to its receiver; `nil` if no flow to the receiver is usable.
    func dialogHop(_ pass: DialogPass, _ next: RouteSet.Next, now: Moment) -> Flow? {
        guard let flow = dialogFlow(pass, next, now: now), flow.transport.isSecure || !next.isSecure else { return nil }
        return flow
    }

    /// Replaces a GRUU in the Request-URI by the phone's contact, because a phone may use its GRUU as Contact of a
    /// dialog.
    func withoutGRUU(_ next: RouteSet.Next, _ pass: DialogPass, now: Moment) -> RouteSet.Next {
        guard case .phone(let device) = pass.receiver.party, GRUU(next.requestURI) != nil,
            let home = identity.home(of: next.requestURI),
            let named = deviceNamed(byPURR: next.requestURI)?.device
                ?? addressee(next.requestURI, home: home).device,
            named == registrar.bindings.device(of: device),
            let target = registrar.bindings.forkTarget(device, now: now.instant),
            let uri = SIPURI(target.requestURI)
        else { return next }
        var next = next
        next.requestURI = uri
        return next
    }

    /// The Route values of a request inside a dialog. If another node has the phone's flow, the first value leads to
    /// that node.
    func dialogRoutes(_ pass: DialogPass, _ next: RouteSet.Next, now: Moment) -> [ByteString]? {
        guard network.flows.haveNodes, case .phone(let device) = pass.receiver.party,
            let node = network.flows.nodeRoute(to: registrar.bindings.forkTarget(device, now: now.instant))
        else { return next.rows }
        return node.routes + next.texts
    }

    func dialogFlow(_ pass: DialogPass, _ next: RouteSet.Next, now: Moment) -> Flow? {
        let side = pass.receiver
        switch side.party {
        case .phone(let binding):
            if network.flows.haveNodes,
                let node = network.flows.nodeRoute(to: registrar.bindings.forkTarget(binding, now: now.instant))
            {
                return node.flow
            }
            if registrar.bindings.hasFurtherFlows(binding), let flow = bestFlow(of: binding, for: side.flow, now: now) {
                return isTrusted(flow) ? place(next, insteadOf: flow, pass, now: now) : flow
            }
            let present = registrar.bindings.flow(of: binding)
            // The closed connection on which the dialog began is not used.
            let first = present == side.flow.closed ? nil : side.flow
            guard let flow = [present, first].lazy.compactMap({ $0 }).first(where: { leadsToPhone($0) }) else {
                return returnFlow(to: binding, now: now)
            }
            // A request to a phone behind a trusted edge is sent to the address in the edge's Contact or Record-Route.
            return isTrusted(flow) ? place(next, insteadOf: flow, pass, now: now) : flow
        case .caller: return leadsToPhone(side.flow) ? side.flow : nil
        case .peer, .upstream:
            if let place = place(next, insteadOf: side.flow, pass, now: now), !place.isClosed { return named(place) }
            // After a restart, the daemon opens a new connection to the upstream for requests inside older dialogs.
            guard let (transport, endpoint) = upstream(of: home(of: pass))?.hop.numeric,
                let listener = identity.listener(for: transport, to: endpoint.address, preferring: nil)
            else { return nil }
            return Flow(transport: transport, listener: listener.number, connection: 0, remote: endpoint)
        }
    }

    /// The best flow to a phone with several flows: the flow on which the dialog began, if that flow is usable.
    func bestFlow(of binding: DeviceID, for first: Flow, now: Moment) -> Flow? {
        let flows = registrar.bindings.flows(of: binding, now: now.instant).compactMap {
            registrar.bindings.flow(of: $0)
        }
        return flows.contains(first) ? first : flows.first { leadsToPhone($0) }
    }

    /// Adds the upstream's host name to a TLS flow, because the certificate check needs the name and a dialog token has
    /// only the address.
    func named(_ flow: Flow) -> Flow {
        guard flow.transport == .tls, !flow.isConnection else { return flow }
        let server =
            network.upstream.places.contains(flow.remote)
            ? network.upstream.server
            : upstreamUsers.pbxs.lazy.flatMap(\.hops).first { $0.endpoint == flow.remote }?.server ?? .none
        return Flow(
            transport: flow.transport, listener: flow.listener, connection: 0, remote: flow.remote, server: server)
    }

    /// The flow for a new connection to a phone without push token, after the phone's own connection was closed (T9.2).
    func returnFlow(to binding: DeviceID, now: Moment) -> Flow? {
        guard let target = registrar.bindings.forkTarget(binding, now: now.instant),
            case .connection(let place) = hop(to: target),
            let listener = identity.listener(
                for: place.transport, to: place.endpoint.address, preferring: target.flow.listener)
        else { return nil }
        return Flow(transport: place.transport, listener: listener.number, connection: 0, remote: place.endpoint)
    }

    /// Whether the proxy can send to a phone on the flow: the flow is UDP, or has an open connection. The proxy opens
    /// no connection to a phone's source address, because a phone does not listen on its source port.
    func leadsToPhone(_ flow: Flow) -> Bool { !flow.transport.isReliable || flow.isConnection }

    /// The flow to the address in a peer's Contact or Record-Route, if the address is numeric and trusted; otherwise
    /// the dialog's first flow.
    ///
    /// A peer whose URI names no transport is reached over TCP if the peer's own request came over TCP.
    func place(_ next: RouteSet.Next, insteadOf flow: Flow, _ pass: DialogPass, now: Moment) -> Flow? {
        guard let hop = NextHop(next.target)?.staying(on: flow.transport), let (named, endpoint) = hop.numeric else {
            return flow
        }
        // An endpoint that refused TCP lately gets the request over UDP, because an ACK on a failed connection would be
        // lost.
        let isRefused = named == .tcp && network.lookups.withoutTCP.contains(endpoint, now: now.instant)
        let transport = isRefused && hop.transport == .tcp ? .udp : named
        guard isTrusted(endpoint), mayReach(endpoint, from: home(of: pass)),
            transport != flow.transport || endpoint != flow.remote,
            !identity.isUs(next.target), !identity.isOurs(transport, endpoint),
            pass.isFromPeer || endpoint == flow.remote || isKnownPort(endpoint),
            let listener = identity.listener(for: transport, to: endpoint.address, preferring: flow.listener)
        else { return flow }
        return Flow(transport: transport, listener: listener.number, connection: 0, remote: endpoint)
    }

    /// Whether a request inside a dialog that is too large for UDP may use TCP: only if the peer's URI names no
    /// transport, and the settings do not demand UDP.
    func mayUseTCP(_ pass: DialogPass, _ next: RouteSet.Next) -> Bool {
        switch pass.receiver.party {
        case .phone, .caller: false
        case .peer, .upstream:
            !next.target.parameters.contains("transport")
                && (hasTenants ? upstream(of: home(of: pass))?.hop.transport : settings.upstream?.transport) != .udp
        }
    }

    /// The UDP hop to try after a failed TCP connection to a peer (RFC 3261 section 18.1.1). The result is empty if the
    /// dialog began over TCP and the URI names a transport.
    func insteadOfConnection(_ hop: Flow, _ pass: DialogPass, _ next: RouteSet.Next) -> [ResolvedHop] {
        let side = pass.receiver
        guard hop.transport == .tcp, !hop.isConnection, side.party == .peer || side.party == .upstream else {
            return []
        }
        let knowsDatagrams = side.flow.transport == .udp && side.flow.remote.address == hop.remote.address
        guard knowsDatagrams || !next.target.parameters.contains("transport") else { return [] }
        return [ResolvedHop(transport: .udp, endpoint: hop.remote, isFixed: true)]
    }

    /// Whether a phone's Route or Request-URI may name a port of a trusted host: only 5060, 5061 and the ports of
    /// configured peers (T9.4).
    func isKnownPort(_ endpoint: Endpoint) -> Bool {
        if endpoint.port == 5060 || endpoint.port == 5061 { return true }
        if let (_, upstream) = settings.upstream?.numeric, upstream == endpoint { return true }
        if isPBX(endpoint) { return true }
        return network.upstream.places.contains(endpoint) || settings.trusted.contains(.endpoint(endpoint))
    }
}
