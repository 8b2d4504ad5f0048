import AccessLimits
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

/// Keeps tenants apart: decides to which domain a request belongs, and who is trusted for a domain (T41).
extension ProxyEngine {
    var hasTenants: Bool { !settings.tenants.all.isEmpty }

    /// The tenant with this domain, in lower case; `nil` if the domain is no tenant.
    func tenant(of domain: ByteString?) -> TenantNumber? {
        guard hasTenants, let domain else { return nil }
        return settings.tenants.number(of: domain)
    }

    /// Whether two domains belong together: they are one domain, or none of the two is a tenant.
    func belongTogether(_ domain: ByteString?, _ other: ByteString?) -> Bool {
        !hasTenants || tenant(of: domain) == tenant(of: other)
    }

    // MARK: Trust

    /// Whether the flow's peer is trusted for the users of a domain (T41.2).
    func isTrusted(_ flow: Flow, for domain: ByteString?) -> Bool {
        guard isTrusted(flow) else { return false }
        guard hasTenants else { return true }
        return matches(flow, settings.tenants.peers(of: tenant(of: domain)))
    }

    /// Whether requests of a domain may be sent to an endpoint (T41.2). The endpoint must not belong to a trusted peer or
    /// PBX of other domains only.
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

    /// Whether requests of a domain may be sent to this host name: the name is not that of a trusted peer of other
    /// domains only.
    func mayReach(name host: ByteString, from domain: ByteString?) -> Bool {
        guard hasTenants else { return true }
        let name = host.string.lowercased()
        return !settings.trusted.contains { $0.matches(name: name) }
            || settings.tenants.peers(of: tenant(of: domain)).contains { $0.matches(name: name) }
    }

    /// Whether calls of phones of a tenant go through the setting `upstream`. A tenant with trusted peers of its own
    /// must list the upstream among them, because another PBX would get the tenant's calls.
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

    /// The domain to which the sender of a request belongs: the only tenant for which a trusted peer is trusted, or the
    /// domain in a phone's From; `nil` if the sender names no domain.
    func senderDomain(_ incoming: IncomingRequest) -> ByteString? {
        guard incoming.isTrusted else {
            return incoming.sender?.host ?? identity.home(of: incoming.request.from.uri)
        }
        return onlyTenant(of: incoming.flow)
    }

    /// The domain of the only tenant for which a peer is trusted; `nil` if the peer is trusted for other domains too.
    private func onlyTenant(of flow: Flow) -> ByteString? {
        guard hasTenants, !matches(flow, settings.tenants.commonPeers) else { return nil }
        var domains = settings.tenants.all.filter { matches(flow, $0.peers) }.map(\.domain)
        guard let domain = domains.popLast(), domains.isEmpty else { return nil }
        return domain
    }

    /// The domain of the user that a Request-URI names; `nil` if the URI names no user of this daemon.
    ///
    /// If the URI has only an address of this daemon, or is a tel URI, the domain is that of a sender who belongs to a
    /// tenant, or else the daemon's first domain. The host of a PBX counts as the domain that the PBX serves, because a
    /// phone that calls back dials the host in the PBX's From (T9.19).
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

    /// The domain of the user that a URI names by one of the daemon's domains or addresses; `nil` if the URI names no
    /// user of this daemon.
    func ownHome(of uri: SIPURI, from incoming: IncomingRequest) -> ByteString? {
        guard hasTenants, !identity.isDomain(uri.host) else { return identity.home(of: uri) }
        return identity.home(of: uri) == nil ? nil : ownTenant(incoming) ?? identity.domains.first
    }

    /// The tenant to which the sender of a request belongs; `nil` if the sender belongs to no tenant.
    private func ownTenant(_ incoming: IncomingRequest) -> ByteString? {
        senderDomain(incoming).flatMap { tenant(of: $0) == nil ? nil : $0 }
    }

    /// The domain to which a call belongs: the domain of the called user, or else of the caller; `nil` if the call names
    /// no domain.
    func home(of call: ProxiedRequest) -> ByteString? {
        if let domain = call.userCall?.aor.host ?? call.sender?.host { return domain }
        guard let request = revive(call)?.request else { return nil }
        if request.to.tag != nil, case .dialog(let pass, _) = route(of: request) { return home(of: pass) }
        let device = call.fork.branches.lazy.compactMap(\.addressee).first
        return device.flatMap { registrar.bindings.binding($0)?.aor.host } ?? identity.home(of: request.from.uri)
    }

    /// The domain to which a dialog belongs: the domain of the user whose phone is one of its sides, or else the only
    /// tenant of the PBX that is the other side; `nil` if both are unknown.
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

    /// The texts of the realms in which this daemon asks the phones of a domain; `nil` stands for an unknown domain.
    func ownRealms(of domain: ByteString?) -> [ByteString] {
        guard hasTenants, let domain else { return access.digest.realmTexts }
        return [access.digest.realm(for: domain).text.lowercased()]
    }

    /// Whether a trusted peer may take part in this dialog: the dialog's domain is unknown, or the peer is trusted for it.
    func isTrusted(_ flow: Flow, in pass: DialogPass) -> Bool {
        guard hasTenants, let domain = home(of: pass) else { return isTrusted(flow) }
        return isTrusted(flow, for: domain)
    }

    // MARK: Limits

    /// The account of a tenant's calls; `nil` if the domain is no tenant.
    func share(of domain: ByteString?) -> TenantShare? {
        guard let number = tenant(of: domain) else { return nil }
        let tenant = settings.tenants[number]
        return TenantShare(of: tenant.domain, calls: tenant.settings.calls)
    }

    /// Whether the limit of pushes for calls leaves the user's domain a push (T41.5). All pushes of an admitted call are
    /// counted, also those beyond the limit, because otherwise a user with many phones would never be woken.
    func admitsPushes(_ count: Int, to aor: AddressOfRecord, now: Moment) -> Bool {
        guard let number = tenant(of: aor.host) else { return true }
        let limit = settings.tenants[number].settings.pushes
        let isAdmitted = access.tenantPushes.admit(number, limit: limit, now: now.instant)
        for _ in 1..<max(1, count) { _ = access.tenantPushes.admit(number, limit: limit, now: now.instant) }
        return isAdmitted
    }
}
