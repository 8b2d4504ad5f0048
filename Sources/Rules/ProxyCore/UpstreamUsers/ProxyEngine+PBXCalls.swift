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

/// Challenges and acceptances of PBXs for requests of phones whose users are registered there.
///
/// The PBX asks for passwords in the realm of the users here. A request has credentials for one challenge of a realm, so
/// only one of both servers can ask: the PBX, unless the PBX accepts requests of this daemon without a password.
extension ProxyEngine {
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
