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

/// Requests of phones whose users are registered at a PBX.
///
/// The PBX asks for passwords in the realm of the users here. A request has credentials for one challenge of a realm, so
/// only one of both servers can ask: the PBX, unless the PBX accepts requests of this daemon without a password.
extension ProxyEngine {
    /// The number of the PBX to which the requests of this phone go; `nil` if its domain has none.
    func pbx(ofCaller incoming: IncomingRequest) -> Int? {
        guard !upstreamUsers.isEmpty, !incoming.isTrusted, let home = identity.home(of: incoming.request.from.uri)
        else { return nil }
        return upstreamUsers.number(of: home)
    }

    func sendToPBX(_ incoming: IncomingRequest, _ next: RouteSet.Next, _ number: Int, now: Moment) {
        var incoming = incoming
        let caller: Caller
        if let user = registeredUser(incoming, at: number, now: now) {
            caller = Caller(user: user)
        } else if let proved = authenticateSender(&incoming, now: now) {
            caller = proved
        } else {
            return
        }
        let pbx = upstreamUsers.pbxs[number]
        sendUpstream(incoming, next, to: pbx.upstream, isAway: pbx.health.refuses, caller: caller, now: now)
    }

    /// The user in From, if the user's phone has proved a registration on this very flow, and the PBX asks for the
    /// password of the request itself.
    private func registeredUser(_ incoming: IncomingRequest, at number: Int, now: Moment) -> AddressOfRecord? {
        guard settings.authenticates, upstreamUsers.pbxs[number].credence != .takesOurWord,
            let user = identity.callingUser(of: incoming),
            let device = registrar.bindings.device(of: user, where: { $0 == incoming.flow }),
            registrar.bindings.forkTarget(device, now: now.instant)?.isFresh == true
        else { return nil }
        return user
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

    // MARK: Responses

    /// The number of the PBX that has sent this response, if its challenge is for the phone.
    func pbxChallenges(_ leg: BranchLeg) -> Bool {
        guard !upstreamUsers.isEmpty, !leg.call.isTrusted, leg.call.sender == nil,
            let number = pbx(of: leg), upstreamUsers.pbxs[number].credence != .takesOurWord
        else { return false }
        upstreamUsers.pbxs[number].credence = .asks
        return true
    }

    private func pbx(of leg: BranchLeg) -> Int? {
        guard let place = leg.call.fork.branches[leg.branch].flow?.remote else { return nil }
        return upstreamUsers.numbers.first { number in
            upstreamUsers.pbxs[number].hops.contains { $0.endpoint == place }
        }
    }

    /// A PBX has accepted a call or a message of a phone. If no password came with the request, the PBX takes this
    /// daemon's word for the user, so the daemon asks phones from now on.
    func noteAcceptance(_ status: Status, of leg: BranchLeg) {
        guard !upstreamUsers.isEmpty, status.code >= 180, status.code < 300, !leg.call.isTrusted,
            leg.call.sender == nil, settings.authenticates, let number = pbx(of: leg),
            upstreamUsers.pbxs[number].credence != .takesOurWord,
            let request = revive(leg.call)?.request, request.method == .invite || request.method == .message,
            request.to.tag == nil, !request.frame.contains(.authorization),
            !request.frame.contains(.proxyAuthorization)
        else { return }
        takesOurWord(number)
    }

    func takesOurWord(_ number: Int) {
        guard upstreamUsers.pbxs[number].credence != .takesOurWord else { return }
        upstreamUsers.pbxs[number].credence = .takesOurWord
        log.warning(
            "a PBX accepts calls of this daemon without a password, so the daemon now asks phones for it",
            [.target: .bytes(upstreamUsers.pbxs[number].domain)])
    }
}
