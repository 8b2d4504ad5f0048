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

/// Facts about the PBXs at which users are registered: whose calls a token names, which servers are a PBX's, and which
/// requests of phones go to a PBX. Functions in this file change nothing.
extension ProxyEngine {
    // MARK: Calls for tokens

    /// The user whom a PBX calls by the token that the daemon has registered there.
    ///
    /// Only that PBX may call the token. For anybody else a token is an unknown user, so nobody learns which tokens
    /// exist.
    func userCalled(byTokenIn uri: SIPURI, _ incoming: IncomingRequest) -> AddressOfRecord? {
        guard !upstreamUsers.isEmpty, incoming.isTrusted, let text = uri.user, identity.home(of: uri) != nil,
            let user = upstreamUsers.agent.user(called: text.percentDecoded()),
            isPBX(Int(user.upstream.rawValue), incoming.flow)
        else { return nil }
        return upstreamUsers.aor(of: user)
    }

    /// The callee for the log, if the URI has a token: the user of the token. The sender of the request does not matter. A
    /// text that could be the token of a former user is cut off.
    func calleeOfToken(in uri: SIPURI) -> AddressOfRecord? {
        guard !upstreamUsers.isEmpty, let text = uri.user?.percentDecoded(), UpstreamToken(text) != nil else {
            return nil
        }
        if let user = upstreamUsers.agent.user(called: text) { return upstreamUsers.aor(of: user) }
        let host = uri.host.lowercased()
        guard !isKnown(AddressOfRecord(user: text, host: host)) else { return nil }
        return AddressOfRecord(user: ByteString("\(text[0..<4])..."), host: host)
    }

    /// Whether a PBX at which users are registered has a server at this place.
    func isPBX(_ place: Endpoint) -> Bool {
        !upstreamUsers.isEmpty && upstreamUsers.pbxs.contains { $0.hops.contains { $0.endpoint == place } }
    }

    /// Whether the flow's peer is one of the PBX's servers, by its address or by its certificate.
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

    /// The number of the PBX to which the requests of this phone go; `nil` if its domain has none.
    func pbx(ofCaller incoming: IncomingRequest) -> Int? {
        guard !upstreamUsers.isEmpty, !incoming.isTrusted, let home = identity.home(of: incoming.request.from.uri)
        else { return nil }
        return upstreamUsers.number(of: home)
    }

    /// The realms whose credentials are removed from a request to this place. A phone's credentials for the realm of
    /// its PBX are sent on to this PBX, and to nobody else.
    func realmsToStrip(from incoming: IncomingRequest, to place: Endpoint?) -> [ByteString] {
        guard incoming.sender == nil, let place, let number = pbxAsking(incoming, at: place) else {
            return identity.realms
        }
        let realm = access.digest.realm(for: upstreamUsers.pbxs[number].domain)
        return identity.realms.filter { $0 != realm }
    }

    private func pbxAsking(_ incoming: IncomingRequest, at place: Endpoint) -> Int? {
        guard !upstreamUsers.isEmpty, !incoming.isTrusted else { return nil }
        // In a dialog that the PBX began, the phone's From has the token.
        let from = incoming.request.from.uri
        let domain = calleeOfToken(in: from)?.host ?? identity.home(of: from)
        guard let number = domain.flatMap({ upstreamUsers.number(of: $0) }),
            upstreamUsers.pbxs[number].credence != .takesOurWord,
            upstreamUsers.pbxs[number].hops.contains(where: { $0.endpoint == place })
        else { return nil }
        return number
    }
}
