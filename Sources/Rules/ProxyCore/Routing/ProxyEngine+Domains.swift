import AccessLimits
import Addressing
import Bytes
import Calling
import LocationService
import ProxyPolicy
import PushDelivery
import Registration
import Routing
import SIPDialogs
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping
import UpstreamRegistration

/// Separates tenants: decides which domain a request belongs to, and which peers are trusted for a domain (T41).
extension ProxyEngine {
    var hasTenants: Bool { !settings.tenants.all.isEmpty }

    /// The tenant with the given domain, in lower case; `nil` if the domain is no tenant.
    func tenant(of domain: ByteString?) -> TenantNumber? {
        guard hasTenants, let domain else { return nil }
        return settings.tenants.number(of: domain)
    }

    /// Whether two domains are equal, or both are no tenants.
    func belongTogether(_ domain: ByteString?, _ other: ByteString?) -> Bool {
        !hasTenants || tenant(of: domain) == tenant(of: other)
    }

    // MARK: Trust

    /// Whether a request came from a peer that is trusted for the users of a domain (T41.2).
    func isTrusted(_ incoming: IncomingRequest, for domain: ByteString?) -> Bool {
        incoming.isTrusted && (!hasTenants || isOfDomain(incoming.flow, domain))
    }

    /// Whether the flow's peer is listed as trusted for a domain.
    private func isOfDomain(_ flow: Flow, _ domain: ByteString?) -> Bool {
        matches(flow, settings.tenants.peers(of: tenant(of: domain)))
    }

    /// Whether requests of a domain may be sent to an endpoint (T41.2). An endpoint is refused if it belongs only to
    /// trusted peers or PBXs of other domains.
    func mayReach(_ endpoint: Endpoint, from domain: ByteString?) -> Bool {
        guard hasTenants else { return true }
        let own = tenant(of: domain)
        if settings.tenants.peers(of: own).contains(where: { $0.matches(endpoint) }) { return true }
        let owners = upstreamUsers.pbxs.filter { pbx in
            !pbx.isRetired && pbx.hops.contains { $0.endpoint == endpoint }
        }
        if owners.contains(where: { belongTogether($0.domain, domain) }) { return true }
        if network.upstream.places.contains(endpoint), usesGeneralUpstream(own) { return true }
        return owners.isEmpty && !isTrusted(endpoint) && !network.upstream.places.contains(endpoint)
    }

    /// Whether requests of a domain may be sent to a host name; the name of another domain's trusted peer is refused.
    func mayReach(name host: ByteString, from domain: ByteString?) -> Bool {
        guard hasTenants else { return true }
        let name = host.string.lowercased()
        return !settings.trusted.contains { $0.matches(name: name) }
            || settings.tenants.peers(of: tenant(of: domain)).contains { $0.matches(name: name) }
    }

    /// Whether calls from a tenant's phones go to the setting `upstream`. A tenant with its own trusted peers uses the
    /// setting `upstream` only if the upstream is one of the tenant's peers.
    func usesGeneralUpstream(_ tenant: TenantNumber?) -> Bool {
        guard let upstream = settings.upstream else { return false }
        guard let tenant, let own = settings.tenants[tenant].settings.trusted else { return true }
        if let (_, endpoint) = upstream.numeric { return own.contains { $0.matches(endpoint) } }
        let name = upstream.host.string.lowercased()
        return own.contains { $0.matches(name: name) }
            || !network.upstream.places.isEmpty
                && network.upstream.places.allSatisfy { place in own.contains { $0.matches(place) } }
    }

    private func matches(_ flow: Flow, _ peers: [TrustedPeer]) -> Bool {
        if !flow.transport.isWebSocket, peers.contains(where: { $0.matches(flow.remote) }) { return true }
        guard let names = network.flows.names(on: flow) else { return false }
        return peers.contains { peer in names.contains { peer.matches(name: $0) } }
    }

    // MARK: The domain of a request

    /// The domain of a request's sender: the only tenant of a trusted peer, or the domain in a phone's From; `nil` if
    /// unknown.
    func senderDomain(_ incoming: IncomingRequest) -> ByteString? {
        guard incoming.isTrusted else {
            return incoming.sender?.host ?? identity.home(of: incoming.request.from.uri)
        }
        return onlyTenant(of: incoming.flow)
    }

    /// The domain of the tenant, if the peer is trusted for exactly one tenant; `nil` if the peer is trusted for other
    /// domains too.
    private func onlyTenant(of flow: Flow) -> ByteString? {
        guard hasTenants, !matches(flow, settings.tenants.commonPeers) else { return nil }
        var domains = settings.tenants.all.filter { matches(flow, $0.peers) }.map(\.domain)
        guard let domain = domains.popLast(), domains.isEmpty else { return nil }
        return domain
    }

    /// The domain of the user in a Request-URI; `nil` if the URI names no user of this daemon.
    ///
    /// A tel URI, or a URI with only the daemon's address, belongs to the sender's tenant or, without a tenant, to the
    /// daemon's first domain. The host of a PBX stands for the domain that the PBX serves, because a phone that calls
    /// back dials the host in the PBX's From (T9.19).
    func home(of uri: SIPURI, from incoming: IncomingRequest) -> ByteString? {
        guard hasTenants else { return home(of: uri) }
        if let home = ownHome(of: uri, from: incoming) { return home }
        let own = ownTenant(incoming)
        if uri.scheme == .tel { return own }
        let isOwn = { (domain: ByteString) in own == nil || own == domain }
        for pbx in upstreamUsers.pbxs where !pbx.isRetired && isOwn(pbx.domain) {
            let places = pbx.hops.map(\.endpoint)
            if UpstreamHosts.ofUpstream.name(uri, of: pbx.upstream, at: places) { return pbx.domain }
        }
        return home(of: uri)
    }

    /// The domain of the user in a Request-URI; `nil` if the URI names no user of this daemon. The host name of the
    /// upstream in a Request-URI stands for the daemon's first domain (T9.19).
    func home(of uri: SIPURI) -> ByteString? {
        if let home = identity.home(of: uri) { return home }
        guard settings.upstreamHosts.name(uri, of: settings.upstream, at: network.upstream.places) else { return nil }
        return identity.domains.first
    }

    /// The domain of the user whom a URI names by one of the daemon's domains or addresses; `nil` if the URI names no
    /// user of this daemon.
    func ownHome(of uri: SIPURI, from incoming: IncomingRequest) -> ByteString? {
        guard hasTenants, !identity.isDomain(uri.host) else { return identity.home(of: uri) }
        return identity.home(of: uri) == nil ? nil : ownTenant(incoming) ?? identity.domains.first
    }

    /// The tenant of a request's sender; `nil` if the sender belongs to no tenant.
    private func ownTenant(_ incoming: IncomingRequest) -> ByteString? {
        senderDomain(incoming).flatMap { tenant(of: $0) == nil ? nil : $0 }
    }

    /// The domain of a call: the called user's domain, or the caller's domain if the callee is foreign; `nil` if the
    /// call names no domain.
    func home(of call: ProxiedRequest) -> ByteString? {
        if let domain = call.userCall?.aor.host ?? call.sender?.host { return domain }
        guard let request = revive(call)?.request else { return nil }
        if request.to.tag != nil, case .dialog(let pass, _) = route(of: request) { return home(of: pass) }
        let device = call.fork.branches.lazy.compactMap(\.addressee).first
        return device.flatMap { registrar.bindings.binding($0)?.aor.host } ?? identity.home(of: request.from.uri)
    }

    /// The domain of a dialog: the domain of the phone's user, or the only tenant of the PBX on the other side; `nil`
    /// if unknown.
    func home(of pass: DialogPass) -> ByteString? {
        for side in [pass.sender, pass.receiver] {
            if case .phone(let id) = side.party, let aor = registrar.bindings.binding(id)?.aor { return aor.host }
        }
        for side in [pass.sender, pass.receiver] where side.party == .peer || side.party == .upstream {
            let pbx = upstreamUsers.pbxs.first { pbx in pbx.hops.contains { $0.endpoint == side.flow.remote } }
            if let domain = onlyTenant(of: side.flow) ?? pbx?.domain { return domain }
        }
        return nil
    }

    /// The realms in which this daemon challenges the phones of a domain; `nil` stands for an unknown domain.
    func ownRealms(of domain: ByteString?) -> [ByteString] {
        guard hasTenants, let domain else { return access.digest.realmTexts }
        return [access.digest.realm(for: domain).text.lowercased()]
    }

    /// Whether a trusted peer may take part in a dialog: the peer is trusted for the dialog's domain, or the domain is
    /// unknown.
    func isTrusted(_ flow: Flow, in pass: DialogPass) -> Bool {
        guard isTrusted(flow) else { return false }
        guard hasTenants, let domain = home(of: pass) else { return true }
        return isOfDomain(flow, domain)
    }

    // MARK: Limits

    /// The counter of a tenant's calls; `nil` if the domain is no tenant.
    func share(of domain: ByteString?) -> TenantShare? {
        guard let number = tenant(of: domain) else { return nil }
        let tenant = settings.tenants[number]
        return TenantShare(of: tenant.domain, calls: tenant.settings.calls)
    }
}

/// Finds PBXs at which the daemon registers users: the user whom a PBX calls, the servers of a PBX, and the phones'
/// requests for a PBX. The functions in `ProxyEngine+Domains` change no state.
extension ProxyEngine {
    // MARK: Calls for tokens

    /// The user whom a PBX calls by the ``UpstreamToken`` in the daemon's contact at the PBX; `nil` if the URI has no
    /// token.
    ///
    /// A user can be called by an ``UpstreamToken`` only from the PBX at which the token is registered. A call to an
    /// ``UpstreamToken`` from any other sender gets the response for an unknown user, so that tokens cannot be guessed.
    func userCalled(byTokenIn uri: SIPURI, _ incoming: IncomingRequest) -> AddressOfRecord? {
        guard !upstreamUsers.pbxs.isEmpty, incoming.isTrusted, let text = uri.user, identity.home(of: uri) != nil,
            let user = upstreamUsers.agent.user(called: text.percentDecoded()),
            let number = upstreamUsers.number(of: user.upstream), isPBX(number, incoming.flow)
        else { return nil }
        return upstreamUsers.aor(of: user)
    }

    /// The user to whom the ``UpstreamToken`` in a URI belongs, for the log. Unlike ``userCalled(byTokenIn:_:)``, this
    /// method accepts a token from any sender. If the text could be the token of a removed user, the log shows only its
    /// first four characters.
    func calleeOfToken(in uri: SIPURI) -> AddressOfRecord? {
        guard !upstreamUsers.pbxs.isEmpty, let text = uri.user?.percentDecoded(), upstreamUsers.agent.mayBeToken(text)
        else {
            return nil
        }
        if let user = upstreamUsers.agent.user(called: text) { return upstreamUsers.aor(of: user) }
        let host = uri.host.lowercased()
        guard !isKnown(AddressOfRecord(user: text, host: host)) else { return nil }
        return AddressOfRecord(user: ByteString("\(text[0..<4])..."), host: host)
    }

    /// Whether the endpoint `place` is a server of a PBX at which the daemon registers users.
    func isPBX(_ place: Endpoint) -> Bool {
        !upstreamUsers.pbxs.isEmpty && upstreamUsers.pbxs.contains { $0.hops.contains { $0.endpoint == place } }
    }

    /// Whether the flow's peer is a server of the PBX `number`, by its certificate or address.
    private func isPBX(_ number: Int, _ flow: Flow) -> Bool {
        let pbx = upstreamUsers.pbxs[number]
        if let names = network.flows.names(on: flow), names.contains(pbx.upstream.host.string.lowercased()) {
            return true
        }
        guard !flow.transport.isWebSocket else { return false }
        let hasOnePort = settings.trusted.haveOnePort(of: flow.remote.address)
        return pbx.hops.contains { $0.endpoint.speaks(as: flow.remote, hasOnePort: hasOnePort) }
    }

    // MARK: Requests of phones

    /// The next hop for calls from a domain's phones (the domain's PBX, or the setting `upstream`), and whether the
    /// hop's servers are down.
    func upstream(of domain: ByteString?) -> (hop: NextHop, isAway: Bool)? {
        if !upstreamUsers.pbxs.isEmpty, let number = domain.flatMap({ upstreamUsers.number(of: $0) }) {
            return (upstreamUsers.pbxs[number].upstream, upstreamUsers.pbxs[number].health.refuses)
        }
        if hasTenants, !usesGeneralUpstream(tenant(of: domain)) { return nil }
        return settings.upstream.map { ($0, network.upstream.health.refuses) }
    }

    /// The number of the PBX that gets a phone's requests; `nil` if the phone's domain has no PBX of its own.
    func pbx(ofCaller incoming: IncomingRequest) -> Int? {
        guard !upstreamUsers.pbxs.isEmpty, !incoming.isTrusted, let home = identity.home(of: incoming.request.from.uri)
        else { return nil }
        return upstreamUsers.number(of: home)
    }

    /// The realms whose credentials must be removed from a request to the endpoint `place`. A phone's credentials for
    /// the realm of its PBX are sent only to this PBX.
    func realmsToStrip(from incoming: IncomingRequest, to place: Endpoint?) -> [ByteString] {
        guard incoming.sender == nil, let place, let number = pbxAsking(incoming, at: place) else {
            return ownRealms(of: incoming.sender?.host ?? senderDomain(incoming))
        }
        let realm = access.digest.realm(for: upstreamUsers.pbxs[number].domain).text.lowercased()
        return access.digest.realmTexts.filter { $0 != realm }
    }

    private func pbxAsking(_ incoming: IncomingRequest, at place: Endpoint) -> Int? {
        guard !upstreamUsers.pbxs.isEmpty, !incoming.isTrusted else { return nil }
        // In a dialog that the PBX began, the phone's From has the user's ``UpstreamToken``.
        let from = incoming.request.from.uri
        let domain = calleeOfToken(in: from)?.host ?? identity.home(of: from)
        guard let number = domain.flatMap({ upstreamUsers.number(of: $0) }),
            upstreamUsers.pbxs[number].registers, upstreamUsers.pbxs[number].credence != .takesOurWord,
            upstreamUsers.pbxs[number].hops.contains(where: { $0.endpoint == place })
        else { return nil }
        return number
    }
}

/// Finds the user or device that a Request-URI names, also by a GRUU (RFC 5627) or a `pn-purr` (RFC 8599).
extension ProxyEngine {
    /// The user or device that a Request-URI with one of the daemon's domains names.
    enum Addressee {
        case user(AddressOfRecord)
        /// One device of a user; the id is `nil` while the device has no contact.
        case device(DeviceID?, of: AddressOfRecord)
        case nobody

        var device: DeviceID? { if case .device(let id, _) = self { id } else { nil } }
    }

    /// The destination of a request outside dialogs.
    struct Destination {
        /// The domain of the called user; `nil` if the Request-URI names no user of this daemon.
        let home: ByteString?
        /// Whether a PBX calls the user by the user's ``UpstreamToken``.
        let isByToken: Bool
        /// The addressee, if an ``UpstreamToken`` or a `pn-purr` names it; otherwise ``addressee(_:home:)`` finds it.
        let addressee: Addressee?
    }

    /// The destination that the Request-URI of a request outside dialogs names.
    func destination(_ uri: SIPURI, of incoming: IncomingRequest) -> Destination {
        if let user = userCalled(byTokenIn: uri, incoming) {
            return Destination(home: user.host, isByToken: true, addressee: .user(user))
        }
        if let named = deviceNamed(byPURR: uri) {
            return Destination(home: named.aor.host, isByToken: false, addressee: .device(named.device, of: named.aor))
        }
        return Destination(home: home(of: uri, from: incoming), isByToken: false, addressee: nil)
    }

    /// The user or device that a URI without ``UpstreamToken`` or `pn-purr` names in the domain `home`.
    func addressee(_ uri: SIPURI, home: ByteString) -> Addressee {
        switch GRUU(uri) {
        case nil: return AddressOfRecord(uri, home: home).map { .user($0) } ?? .nobody
        case .publicly(let instance):
            guard let aor = AddressOfRecord(uri, home: home) else { return .nobody }
            return .device(registrar.bindings.device(of: aor, instance: instance), of: aor)
        case .temporary(let sealed):
            guard let (device, callID) = functions.seal.openTemporaryGRUU(sealed),
                let aor = registrar.bindings.binding(device)?.aor, belongTogether(aor.host, home),
                isRegistered(device, callID)
            else { return .nobody }
            return .device(registrar.bindings.device(of: device), of: aor)
        }
    }

    /// The device that the Request-URI names by a `pn-purr` from the device's registration (RFC 8599 section 6).
    func deviceNamed(byPURR uri: SIPURI) -> (device: DeviceID, aor: AddressOfRecord)? {
        guard let purr = uri.parameters.value(of: "pn-purr"), let device = functions.seal.openPURR(purr),
            let aor = registrar.bindings.binding(device)?.aor
        else { return nil }
        return (registrar.bindings.device(of: device), aor)
    }

    /// Whether the device is still registered with the Call-ID of a temporary GRUU. A client that registers with a new
    /// Call-ID loses its temporary GRUUs (RFC 5627 section 3.2).
    private func isRegistered(_ device: DeviceID, _ callID: UInt32) -> Bool {
        registrar.bindings.callIDNumber(of: device).map { $0 & DialogSeal.callIDMask } == callID
    }
}
