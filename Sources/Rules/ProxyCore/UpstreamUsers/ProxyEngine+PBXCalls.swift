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

/// Handles the challenges and 2xx responses of PBXs to requests from phones whose users the daemon registers there.
///
/// The PBX and the daemon ask for passwords in the same realm. A phone answers only one challenge of a realm, so only
/// one of the two servers can ask. The daemon asks only if the PBX accepts the daemon's requests without a password.
extension ProxyEngine {
    /// Whether the challenge in a response on this branch comes from the phone's PBX, so that the phone must answer it.
    /// If the result is true, the method has noted that the PBX asks for passwords.
    func pbxChallenges(_ leg: BranchLeg) -> Bool {
        guard !upstreamUsers.pbxs.isEmpty, !leg.call.isTrusted, let number = pbx(of: leg) else { return false }
        let asked = leg.call.sender == nil && upstreamUsers.pbxs[number].credence != .takesOurWord
        upstreamUsers.pbxs[number].credence = .asks
        return asked
    }

    private func pbx(of leg: BranchLeg) -> Int? {
        guard let place = leg.call.fork.branches[leg.branch].flow?.remote else { return nil }
        return upstreamUsers.numbers.first { number in
            upstreamUsers.pbxs[number].registers && upstreamUsers.pbxs[number].hops.contains { $0.endpoint == place }
        }
    }

    /// Notes that a PBX accepted a call or a message from a phone. If the PBX accepted the request without credentials,
    /// the PBX relies on this daemon, so the daemon itself asks phones for passwords from now on.
    func noteAcceptance(_ status: Status, of leg: BranchLeg) {
        guard !upstreamUsers.pbxs.isEmpty, status.code >= 180, status.code < 300, !leg.call.isTrusted,
            leg.call.sender == nil, settings.authenticates, let number = pbx(of: leg),
            upstreamUsers.pbxs[number].credence == .unknown,
            let request = revive(leg.call)?.request, request.method == .invite || request.method == .message,
            request.to.tag == nil, !request.frame.contains(.authorization),
            !request.frame.contains(.proxyAuthorization)
        else { return }
        takesOurWord(number)
    }

    func takesOurWord(_ number: Int) {
        // A PBX that has challenged one phone can accept another phone's request without a password. The daemon does
        // not challenge phones of such a PBX, because their calls through the PBX would fail.
        guard upstreamUsers.pbxs[number].credence == .unknown else { return }
        upstreamUsers.pbxs[number].credence = .takesOurWord
        log.warning(
            "a PBX accepts requests from this daemon without a password, so the daemon now checks the passwords of the calling phones",
            [.target: .bytes(upstreamUsers.pbxs[number].domain)])
    }
}
