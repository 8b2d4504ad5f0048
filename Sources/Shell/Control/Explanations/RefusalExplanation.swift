import PushDelivery

/// Explains in words why a request was refused.
extension DeviceExplanation {
    func words(_ refusal: Refusal) -> String {
        let caller = record.peer.isEmpty ? "" : " from \(record.peer)"
        let got = "so the caller got \(status)"
        return switch refusal {
        case .foreignDomain: "the call\(caller) came; its domain is not listed under domains, \(got)"
        case .otherIdentity: "the call\(caller) came; its From is not the user whose password the phone sent, \(got)"
        case .forgedRoute: "the call\(caller) came; its Route was not written by this daemon, \(got)"
        case .needsTrust: "the request\(caller) came; only trusted peers send it outside a dialog, \(got)"
        case .command: "the request\(caller) came; only trusted peers send a NOTIFY of that event, \(got)"
        case .otherName: "the request\(caller) came; its From differs from the request that began the dialog, \(got)"
        case .needsDialog: "the request\(caller) came; its To has no tag, \(got)"
        case .otherTenant: "the call\(caller) came; its sender belongs to another domain than \(record.aor), \(got)"
        case .unknownUser: "the call\(caller) came; no user is called \(record.aor), \(got)"
        case .notTrusted:
            "the call\(caller) came; the address is not listed under trusted, \(got) and showed no password"
        case .wrongPassword where record.kind == "register":
            "the phone showed a wrong user or password, and got \(status)"
        case .wrongPassword: "the call\(caller) came with a wrong user or password, \(got)"
        case .noContact: "the call\(caller) came; \(record.aor) had no device, \(got)"
        case .notSecure: "the call\(caller) came; the call is for a sips: address, and no hop uses TLS, \(got)"
        case .calleeLimit: "the call\(caller) came; too many calls for \(record.aor) were active, \(got)"
        case .callerLimit: "the call\(caller) came; too many requests of this caller were active, \(got)"
        case .tenantLimit: "the call\(caller) came; too many calls of this domain were waiting, \(got)"
        case .tooManyCalls: "the call\(caller) came; too many calls were waiting, \(got)"
        case .noRoom: "the call\(caller) came; the memory for waiting requests was full, \(got)"
        case .overload: "the call\(caller) came; the daemon was overloaded, \(got)"
        case .stoodStill:
            "the call\(caller) came; the node had stood still, and did not know what others had taken over, \(got)"
        case .upstreamAway: "the call\(caller) came; the upstream did not answer, \(got)"
        case .draining: "the call\(caller) came; the daemon was shutting down, \(got)"
        case .wrongLogins where record.kind == "register":
            "the phone's password was not checked after too many wrong passwords, and the phone got \(status)"
        case .wrongLogins: "the call\(caller) came; its password was not checked after too many wrong passwords, \(got)"
        case .usersAway: "the call\(caller) came; no source of users could say who the user is, \(got)"
        case .keysAway:
            "the call\(caller) came with a bearer token; the keys of the token's issuer had not been read, \(got)"
        case .loop: "the call\(caller) came; the call had come back to the daemon, or had passed too many hops, \(got)"
        case .unfit:
            "the call\(caller) came; the request has a scheme or an extension that the daemon does not support, \(got)"
        case .register: "the phone's REGISTER got \(status): \(record.reason)"
        }
    }

    /// The advice for a REGISTER whose push parameters fit no app in the settings.
    private var tokenAdvice: String? {
        TokenProblem.allCases.first { "\($0.sentence)" == record.reason }.map {
            "The push parameters of the phone do not fit the settings: \($0.cure)."
        }
    }

    static let upstreamAdvice =
        "Is the PBX of upstream running, and does a firewall let UDP and TCP through both ways? docs/Troubleshooting.md, Calls from phones fail."

    /// Returns the advice to the operator for a refused request.
    func advice(_ refusal: Refusal) -> String? {
        let address = record.source.lastIndex(of: ":").map { String(record.source[..<$0]) } ?? record.source
        return switch refusal {
        case .foreignDomain:
            "The caller must use a domain that is listed under domains, or this daemon's address: \(record.aor) is neither."
        case .otherIdentity:
            "The phone must call as the user whose password it has. Check its user name and authentication name."
        case .forgedRoute:
            "The caller repeats the Route of another call, or of a store that was deleted. The first request of a new call must not have such a Route."
        case .needsTrust, .command: "If \(address) is your PBX, list it under trusted and send SIGHUP."
        case .otherName: "The phone must send the same address and display name in all requests of a dialog."
        case .needsDialog: "The sender lost the dialog, or sent outside a dialog a request that needs a dialog."
        case .otherTenant:
            "A domain under tenants is separate from all other domains. If \(address) is the PBX of the domain, list it under trusted of this tenant."
        case .unknownUser:
            "No user has that name. Add the user with sippushd user add, then register a phone as this user."
        case .notTrusted:
            "If \(address) is your PBX, list it under trusted and send SIGHUP. A phone must be configured with its password."
        case .wrongPassword:
            "Set a password with sippushd user passwd, and the same user name and password in the phone."
        case .noContact: "The phone must register: it never did, has signed out, or its push token died."
        case .notSecure: "Call a sip: address, or have caller, phone and PBX connect by TLS."
        case .calleeLimit, .callerLimit:
            "The limits of one account are limits.calls-per-account and limits.held-bytes."
        case .tenantLimit: "tenants.*.calls is the limit of calls that ring or wait at the same time in one domain."
        case .tooManyCalls: "limits.calls is the limit of calls that ring or wait at the same time."
        case .noRoom: "limits.held-bytes is the memory for requests that wait."
        case .overload:
            "docs/Reliability.md, Load, lists what is refused first. sippushd metrics shows sippushd_overload."
        case .upstreamAway: Self.upstreamAdvice
        case .draining: nil
        case .stoodStill:
            "Look at the machine of the node: a paused virtual machine, or a full processor. docs/Cluster.md."
        case .wrongLogins:
            "Somebody guesses passwords, or a phone has an old one. The limits are limits.wrong-logins-per-source and -per-user."
        case .keysAway:
            "sippushd doctor reads the keys of each issuer and says what is wrong. docs/Bearer.md."
        case .usersAway:
            "sippushd doctor asks each source of users and says what is wrong. docs/Users.md."
        case .loop: "Look for a circle: upstream, the PBX's routes to this daemon, and forwards of call.no-wake."
        case .unfit: "Look at Proxy-Require, Max-Breadth and the Request-URI of the INVITE."
        case .register:
            tokenAdvice ?? "docs/Troubleshooting.md, The phone does not register, has a row for each status."
        }
    }
}
