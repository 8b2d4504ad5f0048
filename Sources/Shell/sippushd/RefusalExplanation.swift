import Control
import PushDelivery

/// Requests that were refused, in words.
extension DeviceExplanation {
    func words(_ refusal: Refusal) -> String {
        let caller = record.peer.isEmpty ? "" : " from \(record.peer)"
        let got = "the caller got \(status)"
        return switch refusal {
        case .foreignDomain: "the call\(caller) came; its domain is none of ours, \(got)"
        case .otherIdentity: "the call\(caller) came; its From is not the user whose password was shown, \(got)"
        case .forgedRoute: "the call\(caller) came; its Route was not made here, \(got)"
        case .needsTrust: "the request\(caller) came; only trusted peers send it outside a dialog, \(got)"
        case .command: "the request\(caller) came; only trusted peers send a NOTIFY of that event, \(got)"
        case .otherName: "the request\(caller) came; its From is not the one that began the dialog, \(got)"
        case .needsDialog: "the request\(caller) came; its To has no tag, \(got)"
        case .unknownUser: "the call\(caller) came; nobody is called \(record.aor), \(got)"
        case .notTrusted:
            "the call\(caller) came; the address is not listed under trusted, \(got) and showed no password"
        case .wrongPassword where record.kind == "register":
            "the phone showed a wrong user or password, and got \(status)"
        case .wrongPassword: "the call\(caller) came with a wrong user or password, \(got)"
        case .noContact: "the call\(caller) came; \(record.aor) had no device, \(got)"
        case .notSecure: "the call\(caller) came; it is for a sips: address, and no protected way leads there, \(got)"
        case .calleeLimit: "the call\(caller) came; too many calls for \(record.aor) were under way, \(got)"
        case .callerLimit: "the call\(caller) came; too much of this caller was under way, \(got)"
        case .tooManyCalls: "the call\(caller) came; there were too many, \(got)"
        case .noRoom: "the call\(caller) came; there was no room for more, \(got)"
        case .overload: "the call\(caller) came; more came than could be served, \(got)"
        case .upstreamAway: "the call\(caller) came; the upstream did not answer, \(got)"
        case .draining: "the call\(caller) came; the daemon was about to end, \(got)"
        case .wrongLogins where record.kind == "register":
            "the phone's password was not looked at after too many wrong ones, and it got \(status)"
        case .wrongLogins: "the call\(caller) came; its password was not looked at after too many wrong ones, \(got)"
        case .register: "the phone's REGISTER got \(status): \(record.reason)"
        }
    }

    static let upstreamAdvice =
        "Is the PBX of upstream running, and does a firewall let UDP and TCP through both ways? docs/Troubleshooting.md, Calls of phones fail."

    /// What to do.
    func advice(_ refusal: Refusal) -> String? {
        let address = record.source.lastIndex(of: ":").map { String(record.source[..<$0]) } ?? record.source
        return switch refusal {
        case .foreignDomain:
            "Whoever calls must write a domain that is listed under domains, or this daemon's address: \(record.aor) is neither."
        case .otherIdentity:
            "The phone must call as the user whose password it has: look at its user name and authentication name."
        case .forgedRoute:
            "The caller repeats a Route of another call, or of a store that is gone; a new call has none."
        case .needsTrust, .command: "If \(address) is your PBX, list it under trusted and send SIGHUP."
        case .otherName: "The phone must say the same address and display name in all of its requests."
        case .needsDialog: "The sender has lost its dialog, or never had one."
        case .unknownUser:
            "Nobody has that name: a phone must register with it first; sippushd user add gives it a password."
        case .notTrusted:
            "If \(address) is your PBX, list it under trusted and send SIGHUP. A phone must know how to show its password."
        case .wrongPassword:
            "sippushd user passwd sets a password; the phone must have the same, and the same user name."
        case .noContact: "The phone must register again: it has signed out, or its push token died."
        case .notSecure: "Call a sip: address, or have caller, phone and PBX connect by TLS."
        case .calleeLimit, .callerLimit:
            "limits.calls-per-account and limits.held-bytes say how much one account may have."
        case .tooManyCalls: "limits.calls says how many calls are offered at the same time."
        case .noRoom: "limits.held-bytes says how much is kept of requests that wait."
        case .overload:
            "docs/Reliability.md, Load, says what is refused first; sippushd metrics shows sippushd_overload."
        case .upstreamAway: Self.upstreamAdvice
        case .draining: nil
        case .wrongLogins:
            "Somebody guesses, or a phone has an old password: limits.wrong-logins-per-source and -per-user are the limits."
        case .register: "docs/Troubleshooting.md, The phone does not register, has a row for each status."
        }
    }
}
