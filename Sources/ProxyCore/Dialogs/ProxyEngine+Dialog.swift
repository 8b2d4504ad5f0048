import Addressing
import Bytes
import Registration
import SIPGrammar
import SIPTransactions
package import Timekeeping

/// Requests inside dialogs that were made through here: from one of the two sides to the other, and no other way (T20).
extension ProxyEngine {
    func dialogRequestReceived(_ incoming: IncomingRequest, _ pass: DialogPass, _ next: RouteSet.Next, now: Moment) {
        guard isAlive(pass, now: now) else {
            refuse(incoming, .callDoesNotExist, now: now)
            return
        }
        guard admits(incoming, pass, now: now) else { return }
        if let breach = breach(of: incoming, pass) {
            // Its sender has proved itself. In a transaction its ACK ends here; without one it would go to the other side.
            guard let incoming = begun(incoming, now: now) else { return }
            return refuse(incoming, by: breach, now: now)
        }
        renew(pass, now: now)
        let next = withoutGRUU(next, pass, now: now)
        let caller = caller(of: incoming, pass)
        guard admitsBesides(incoming, from: caller, now: now) else { return }
        if let request = dialogRequest(incoming, pass, next, from: caller) {
            return sendInDialog(incoming, request, now: now)
        }
        guard let hop = dialogHop(pass, next, now: now) else {
            if next.isSecure {
                refuse(incoming, .temporarilyUnavailable, fields: [sipsNotAllowed], now: now)
            } else {
                let (status, fields) = ownAnswer(.temporarilyUnavailable, to: incoming.request)
                refuse(incoming, status, fields: fields, now: now)
            }
            return
        }
        forward(incoming, from: caller, next, on: hop, pass, now: now)
    }

    /// Who answers for a request inside a dialog: the user whose side it came from.
    func caller(of incoming: IncomingRequest, _ pass: DialogPass) -> Caller {
        if case .phone(let device) = pass.sender.party, let aor = registrar.bindings.binding(device)?.aor {
            return Caller(user: aor)
        }
        return caller(of: incoming.request, on: incoming.flow, isTrusted: incoming.isTrusted || pass.isFromPeer)
    }

    /// Why a phone may not send this inside its dialog.
    private func breach(of incoming: IncomingRequest, _ pass: DialogPass) -> RequestRules.Breach? {
        guard !pass.isFromPeer else { return nil }
        if !keepsItsName(incoming, pass) { return .otherName }
        return incoming.isTrusted ? nil : RequestRules.insideDialogs(incoming.request)
    }

    /// An ACK for a 2xx: routed like any request, but in no transaction (RFC 3261 section 16.10, 17). Where another
    /// request would be refused, it is dropped.
    func ackReceived(_ incoming: IncomingRequest, now: Moment) {
        let request = incoming.request
        guard request.maxForwards != 0,
            case .dialog(let pass, let next) = route(of: request),
            isAlive(pass, now: now), isAtHome(incoming.flow, pass, now: now),
            let flow = dialogHop(pass, next, now: now), !identity.isOurs(flow.transport, flow.remote),
            request.uri.scheme != .sips || incoming.flow.transport.isSecure && flow.transport.isSecure,
            let listener = identity.listener(flow.listener),
            let number = transactions.makeClientTransaction()
        else { return }
        // The number makes the Via unique; no transaction is started with it.
        defer { transactions.discard(number) }
        var edits = RequestEdits(
            requestURI: withoutGRUU(next, pass, now: now).requestURI.text,
            via: via(for: number, listener: listener, incoming),
            maxForwards: (request.maxForwards ?? 71) - 1)
        edits.routes = next.rows
        edits.topViaAddition = incoming.viaAddition
        strip(&edits, of: incoming)
        act(.send(request.forwarded(edits).bytes, on: flow))
        journalACK(request, now: now)
    }

    func forward(
        _ incoming: IncomingRequest, from caller: Caller, _ next: RouteSet.Next, on hop: Flow, _ pass: DialogPass,
        now: Moment
    ) {
        let parties = HeldShares.Parties(caller: caller)
        guard let (incoming, call) = proxied(incoming, to: [nil], parties: parties, now: now) else { return }
        sendTrying(incoming, now: now)
        forward(incoming, next, of: call, on: hop, pass, now: now)
    }

    func forward(
        _ incoming: IncomingRequest, _ next: RouteSet.Next, of call: Call, on hop: Flow, _ pass: DialogPass, now: Moment
    ) {
        var edits = RequestEdits(requestURI: next.requestURI.text, via: .empty, maxForwards: 70)
        edits.routes = next.rows
        transmit(
            incoming, edits, for: 0, of: call, on: hop, device: nil,
            alternatives: insteadOfConnection(hop, pass, next), mayUseTCP: mayUseTCP(pass, next), now: now)
    }

    /// What the Route of a request says.
    func route(of request: SIPRequest) -> RouteSet.Kind {
        RouteSet.preprocess(request, identity: identity) { pass($0, of: request) }
    }

    /// What our token says of the request that brings it; `nil` when it is not ours, or was made for another call.
    private func pass(_ text: ByteString, of request: SIPRequest) -> DialogPass? {
        // Outside a dialog it means nothing, whoever shows it (T20.3).
        guard let toTag = request.to.tag, !toTag.isEmpty else { return nil }
        let fromTag = request.from.tag ?? .empty
        if let opened = functions.seal.open(text, request.callID, fromTag) {
            return pass(opened, isFromCaller: true)
        }
        return functions.seal.open(text, request.callID, toTag).flatMap { pass($0, isFromCaller: false) }
    }

    private func pass(_ opened: DialogSeal.Opened, isFromCaller: Bool) -> DialogPass? {
        DialogToken(opened.plain, in: run).map {
            DialogPass(token: $0, isFromCaller: isFromCaller, digest: opened.digest)
        }
    }

    // MARK: How long (T20.5)

    func isAlive(_ pass: DialogPass, now: Moment) -> Bool {
        now.date <= dialogs.end(of: pass.digest, made: pass.token.made, lifetime: settings.call.dialogLifetime)
    }

    /// Traffic in the second half of a dialog's life makes it as long as a new one's.
    private func renew(_ pass: DialogPass, now: Moment) {
        let lifetime = settings.call.dialogLifetime
        let end = dialogs.end(of: pass.digest, made: pass.token.made, lifetime: lifetime)
        let rest = end - now.date
        guard rest + rest < lifetime else { return }
        let until = now.date + lifetime
        dialogs.renew(pass.digest, until: until, now: now.date)
        act(.record([.dialogRenewed(pass.digest, until: until)]))
    }

    /// Takes a renewal of an earlier run from the store.
    package func restoreDialog(_ digest: UInt64, until: UnixTime, now: Moment) {
        dialogs.renew(digest, until: until, now: now.date)
    }

    // MARK: Where to

    /// The flow to one end of the dialog; `nil` when there is none at present.
    func dialogHop(_ pass: DialogPass, _ next: RouteSet.Next, now: Moment) -> Flow? {
        guard let flow = dialogFlow(pass, next, now: now), flow.transport.isSecure || !next.isSecure else { return nil }
        return flow
    }

    private func dialogFlow(_ pass: DialogPass, _ next: RouteSet.Next, now: Moment) -> Flow? {
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
    private func bestFlow(of binding: DeviceID, for first: Flow, now: Moment) -> Flow? {
        let flows = registrar.bindings.flows(of: binding, now: now.instant).compactMap {
            registrar.bindings.flow(of: $0)
        }
        return flows.contains(first) ? first : flows.first { leadsToPhone($0) }
    }

    /// With the upstream's name where it leads to the upstream, so that its certificate can be checked: a dialog's token
    /// says no more than the address.
    private func named(_ flow: Flow) -> Flow {
        guard flow.transport == .tls, !flow.isConnection, upstreamPlaces.contains(flow.remote) else { return flow }
        return Flow(
            transport: flow.transport, listener: flow.listener, connection: 0, remote: flow.remote,
            server: upstreamServer)
    }

    /// Where a registered phone without pushes is called back when its connection is gone (T9.2).
    private func returnFlow(to binding: DeviceID, now: Moment) -> Flow? {
        guard let target = registrar.bindings.forkTarget(binding, now: now.instant),
            case .connection(let place) = hop(to: target),
            let listener = identity.listener(
                for: place.transport, to: place.endpoint.address, preferring: target.flow.listener)
        else { return nil }
        return Flow(transport: place.transport, listener: listener.number, connection: 0, remote: place.endpoint)
    }

    /// No connection is ever opened to the place that a phone once came from: nobody listens there.
    private func leadsToPhone(_ flow: Flow) -> Bool { !flow.transport.isReliable || flow.isConnection }

    /// A peer names the place for its in-dialog requests in Contact or Record-Route. We go there only when that place is
    /// trusted, and not one of our own; else, and for names, the address its dialog came from serves.
    ///
    /// The transport that its URI names counts. Where it names none, a peer that came by a connection is reached by one.
    private func place(_ next: RouteSet.Next, insteadOf flow: Flow, _ pass: DialogPass, now: Moment) -> Flow? {
        guard let hop = NextHop(next.target)?.staying(on: flow.transport), let (named, endpoint) = hop.numeric else {
            return flow
        }
        // An ACK cannot be tried twice.
        let isRefused = named == .tcp && withoutTCP.contains(endpoint, now: now.instant)
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
    private func insteadOfConnection(_ hop: Flow, _ pass: DialogPass, _ next: RouteSet.Next) -> [ResolvedHop] {
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
    private func isKnownPort(_ endpoint: Endpoint) -> Bool {
        if endpoint.port == 5060 || endpoint.port == 5061 { return true }
        if let (_, upstream) = settings.upstream?.numeric, upstream == endpoint { return true }
        return upstreamPlaces.contains(endpoint) || settings.trusted.contains(.endpoint(endpoint))
    }
}
