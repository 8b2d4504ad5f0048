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

    /// Whether requests of a domain may be sent to an endpoint: the endpoint belongs to no trusted peer, or to a peer
    /// that is trusted for this domain.
    func mayReach(_ endpoint: Endpoint, from domain: ByteString?) -> Bool {
        guard hasTenants, isTrusted(endpoint) else { return true }
        return settings.tenants.peers(of: tenant(of: domain)).contains { $0.matches(endpoint) }
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
        guard hasTenants, !matches(incoming.flow, settings.tenants.commonPeers) else { return nil }
        var domains = settings.tenants.all.filter { matches(incoming.flow, $0.peers) }.map(\.domain)
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
        if identity.isDomain(uri.host) { return uri.host.lowercased() }
        let sender = senderDomain(incoming)
        let own = tenant(of: sender) == nil ? nil : sender
        if identity.home(of: uri) != nil { return own ?? identity.domains.first }
        if uri.scheme == .tel { return own }
        let isOwn = { (domain: ByteString) in own == nil || own == domain }
        for pbx in upstreamUsers.pbxs where !pbx.isRetired && isOwn(pbx.domain) {
            let places = pbx.hops.map(\.endpoint)
            if UpstreamHosts.ofUpstream.name(uri, of: pbx.upstream, at: places) { return pbx.domain }
        }
        return home(of: uri)
    }

    /// The domain to which a call belongs: the domain of the called user, or else of the caller.
    func home(of call: ProxiedRequest) -> ByteString? {
        call.userCall?.aor.host ?? call.sender?.host
            ?? call.fork.branches.lazy.compactMap { $0.addressee }.first
            .flatMap { self.registrar.bindings.binding($0)?.aor.host }
            ?? revive(call).flatMap { identity.home(of: $0.request.from.uri) }
    }

    /// The domain to which a dialog belongs: the domain of the user whose phone is one of its sides; `nil` if no side is
    /// a phone with a contact.
    func home(of pass: DialogPass) -> ByteString? {
        for side in [pass.sender, pass.receiver] {
            if case .phone(let id) = side.party, let aor = registrar.bindings.binding(id)?.aor { return aor.host }
        }
        return nil
    }

    /// Whether a trusted peer may take part in this dialog: the dialog's domain is unknown, or the peer is trusted for it.
    func isTrusted(_ flow: Flow, in pass: DialogPass) -> Bool {
        guard hasTenants, let domain = home(of: pass) else { return isTrusted(flow) }
        return isTrusted(flow, for: domain)
    }

    // MARK: Limits

    /// Whether the limit of pushes for calls leaves the user's domain another push (T41.5).
    func admitsPush(to aor: AddressOfRecord, now: Moment) -> Bool {
        guard let number = tenant(of: aor.host) else { return true }
        return access.tenantPushes.admit(
            number, limit: settings.tenants.all[number.rawValue].settings.pushes, now: now.instant)
    }
}
