import AccessLimits
import Addressing
import Bytes
import Calling
import LocationService
import ProxyPolicy
import Registration
import Routing
import SIPGrammar
import Telemetry
import Timekeeping
import UpstreamRegistration

/// Answers questions about the PBXs at which users are registered: which user a PBX calls, which servers belong to a
/// PBX, and which requests from phones go to a PBX. Functions in this file change nothing.
extension ProxyEngine {
    // MARK: Calls for tokens

    /// The user whom a PBX calls with the ``UpstreamToken`` that the daemon has registered there; `nil` if the URI has
    /// no such token.
    ///
    /// Only the PBX at which the token is registered can call the user by the token. All other senders get the same
    /// response as for an unknown user, so that they cannot find out which tokens exist.
    func userCalled(byTokenIn uri: SIPURI, _ incoming: IncomingRequest) -> AddressOfRecord? {
        guard !upstreamUsers.pbxs.isEmpty, incoming.isTrusted, let text = uri.user, identity.home(of: uri) != nil,
            let user = upstreamUsers.agent.user(called: text.percentDecoded()),
            let number = upstreamUsers.number(of: user.upstream), isPBX(number, incoming.flow)
        else { return nil }
        return upstreamUsers.aor(of: user)
    }

    /// The user of the ``UpstreamToken`` in a URI, for the log. Any sender is accepted here, unlike in
    /// ``userCalled(byTokenIn:_:)``. A text that could be the token of a former user is cut off after four characters.
    func calleeOfToken(in uri: SIPURI) -> AddressOfRecord? {
        guard !upstreamUsers.pbxs.isEmpty, let text = uri.user?.percentDecoded(), UpstreamToken(text) != nil else {
            return nil
        }
        if let user = upstreamUsers.agent.user(called: text) { return upstreamUsers.aor(of: user) }
        let host = uri.host.lowercased()
        guard !isKnown(AddressOfRecord(user: text, host: host)) else { return nil }
        return AddressOfRecord(user: ByteString("\(text[0..<4])..."), host: host)
    }

    /// Whether a PBX at which users are registered has a server at this endpoint.
    func isPBX(_ place: Endpoint) -> Bool {
        !upstreamUsers.pbxs.isEmpty && upstreamUsers.pbxs.contains { $0.hops.contains { $0.endpoint == place } }
    }

    /// Whether the flow's peer is a server of the PBX with this number, by the peer's certificate or its address.
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

    /// The next hop of calls from a domain's phones, and whether its servers are known to be down: the domain's own PBX,
    /// or else the setting `upstream`; `nil` if there is none.
    func upstream(of domain: ByteString?) -> (hop: NextHop, isAway: Bool)? {
        if !upstreamUsers.pbxs.isEmpty, let number = domain.flatMap({ upstreamUsers.number(of: $0) }) {
            return (upstreamUsers.pbxs[number].upstream, upstreamUsers.pbxs[number].health.refuses)
        }
        if hasTenants, !usesGeneralUpstream(tenant(of: domain)) { return nil }
        return settings.upstream.map { ($0, network.upstream.health.refuses) }
    }

    /// The number of the PBX to which the requests of this phone go; `nil` if the phone's domain has no such PBX.
    func pbx(ofCaller incoming: IncomingRequest) -> Int? {
        guard !upstreamUsers.pbxs.isEmpty, !incoming.isTrusted, let home = identity.home(of: incoming.request.from.uri)
        else { return nil }
        return upstreamUsers.number(of: home)
    }

    /// The realms whose credentials are removed from a request before it is sent to this endpoint. A phone's
    /// credentials for the realm of its PBX are sent only to this PBX.
    func realmsToStrip(from incoming: IncomingRequest, to place: Endpoint?) -> [ByteString] {
        guard incoming.sender == nil, let place, let number = pbxAsking(incoming, at: place) else {
            return ownRealms(of: incoming.sender?.host ?? senderDomain(incoming))
        }
        let realm = access.digest.realm(for: upstreamUsers.pbxs[number].domain).text.lowercased()
        return access.digest.realmTexts.filter { $0 != realm }
    }

    private func pbxAsking(_ incoming: IncomingRequest, at place: Endpoint) -> Int? {
        guard !upstreamUsers.pbxs.isEmpty, !incoming.isTrusted else { return nil }
        // In a dialog that the PBX began, the From of the phone's requests has the token of the user.
        let from = incoming.request.from.uri
        let domain = calleeOfToken(in: from)?.host ?? identity.home(of: from)
        guard let number = domain.flatMap({ upstreamUsers.number(of: $0) }),
            upstreamUsers.pbxs[number].registers, upstreamUsers.pbxs[number].credence != .takesOurWord,
            upstreamUsers.pbxs[number].hops.contains(where: { $0.endpoint == place })
        else { return nil }
        return number
    }
}
