/// Why the daemon refused a request before a phone got the request or a push.
package enum Refusal: String, Hashable, Sendable, CaseIterable {
    // The following refusals have the status 403.
    /// The domain of the Request-URI is not one of the daemon's domains.
    case foreignDomain = "foreign-domain"
    /// The From field names a different user than the Authorization field with the right password.
    case otherIdentity = "other-identity"
    /// The Route of the request contains a dialog token that this daemon did not make.
    case forgedRoute = "forged-route"
    /// The request is outside a dialog, where only trusted peers may use the request's method.
    case needsTrust = "needs-trust"
    /// The request is a NOTIFY whose event only trusted peers may send.
    case command
    /// A phone's request has another From than the request that began the dialog.
    case otherName = "other-name"
    /// The called user and the sender belong to different domains, and one of the two domains is a tenant (T41).
    case otherTenant = "other-tenant"
    // The following refusals have the status 404.
    case unknownUser = "unknown-user"
    // The following refusals have the status 407.
    /// The daemon challenged the sender, and got no password. A call from a PBX that is not listed under `trusted` gets
    /// the refusal `not-trusted`.
    case notTrusted = "not-trusted"
    // The following refusals have the status 401 or 407.
    case wrongPassword = "wrong-password"
    // The following refusals have the status 480.
    case noContact = "no-contact"
    /// The request is for a `sips:` address, but not all hops to the phone would use TLS.
    case notSecure = "not-secure"
    // The following refusals have the status 481.
    /// The request has a method that is allowed only in a dialog, but no To tag.
    case needsDialog = "needs-dialog"
    // The following refusals have the status 486.
    /// The callee already has the maximum number of active calls for one callee.
    case calleeLimit = "callee-limit"
    // The following refusals have the status 503.
    /// The caller already has the maximum number of active requests for one caller.
    case callerLimit = "caller-limit"
    /// The tenant of the call already has its maximum number of calls.
    case tenantLimit = "tenant-limit"
    /// The daemon already serves its maximum number of calls.
    case tooManyCalls = "too-many-calls"
    /// The daemon already stores its maximum number of bytes or transactions.
    case noRoom = "no-room"
    /// The daemon is overloaded: requests arrive faster than it can serve them.
    case overload
    /// The node of a cluster stood still, and does not know yet what other nodes have taken over.
    case stoodStill = "stood-still"
    /// The phone's request is for the upstream (the PBX), which does not answer.
    case upstreamAway = "upstream-away"
    /// The daemon is shutting down and accepts no new calls.
    case draining
    /// Too many wrong passwords came from the sender's address, or for the user.
    case wrongLogins = "wrong-logins"
    /// The sources of users do not answer, so the daemon cannot check the user's password.
    case usersAway = "users-away"
    /// The keys of the bearer token's issuer could not be read yet.
    case keysAway = "keys-away"
    // The following refusals have the status 440, 482 or 483.
    /// The request came back to the daemon, or passed too many hops.
    case loop
    // The following refusals have the status 400, 416 or 420.
    /// The daemon does not support the syntax, the URI scheme or a required extension of the request.
    case unfit
    /// A REGISTER was refused for a reason without its own case; ``TimelineRecord/reason`` has the reason.
    case register
}

/// The kind of sender of a refused request. Each kind of sender has its own limit of refusal records, so that strangers
/// cannot displace the records of users.
package enum RefusalShare: String, Hashable, Sendable, CaseIterable {
    case trusted
    /// The sender is a user who sent the right password.
    case user
    case stranger

    /// The maximum number of refusal records for one kind of sender.
    package var records: Int {
        switch self {
        case .trusted, .user: 5000
        case .stranger: 2000
        }
    }
}
