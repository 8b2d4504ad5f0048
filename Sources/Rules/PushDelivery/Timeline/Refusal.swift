/// The reason why the daemon refused a request without sending the request or a push to a phone.
package enum Refusal: String, Hashable, Sendable, CaseIterable {
    // Refusals with the status 403.
    /// The domain of the Request-URI is not one of the daemon's domains.
    case foreignDomain = "foreign-domain"
    /// The From field names a different user than the Authorization field with the right password.
    case otherIdentity = "other-identity"
    /// The Route of the request contains a dialog token that this daemon did not make.
    case forgedRoute = "forged-route"
    /// Only trusted peers may send a request with the request's method outside a dialog.
    case needsTrust = "needs-trust"
    /// The request is a NOTIFY with an event that only trusted peers are allowed to send.
    case command
    /// The From field of a phone's request differs from the From field of the request that began the dialog.
    case otherName = "other-name"
    /// The request is for a user of another domain than its sender, and one of the two domains is a tenant (T41).
    case otherTenant = "other-tenant"
    // The reasons for refusals with the status 404.
    case unknownUser = "unknown-user"
    // Refusals with the status 407.
    /// The daemon challenged the sender, and got no password. A call from a PBX that is not listed under `trusted` gets
    /// the refusal `not-trusted`.
    case notTrusted = "not-trusted"
    // The reasons for refusals with the status 401 or 407.
    case wrongPassword = "wrong-password"
    // Refusals with the status 480.
    case noContact = "no-contact"
    /// The request is for a `sips:` address, but not all hops to the phone would use TLS.
    case notSecure = "not-secure"
    // Refusals with the status 481.
    /// The request was refused because its method is allowed only in a dialog, but its To field has no tag.
    case needsDialog = "needs-dialog"
    // Refusals with the status 486.
    /// The callee already has as many active calls as the limit for one callee allows.
    case calleeLimit = "callee-limit"
    // The reasons for refusals with the status 503.
    /// The caller already has as many active requests as the limit for one caller allows.
    case callerLimit = "caller-limit"
    /// The tenant of the call already has as many calls as its own limit allows.
    case tenantLimit = "tenant-limit"
    /// The daemon already serves as many calls as its limit allows.
    case tooManyCalls = "too-many-calls"
    /// The daemon already stores as many bytes or transactions as its limit allows.
    case noRoom = "no-room"
    /// The daemon is overloaded: requests arrive faster than it can serve them.
    case overload
    /// The phone's request is for the upstream (the PBX), which does not answer.
    case upstreamAway = "upstream-away"
    /// The daemon is shutting down and accepts no new calls.
    case draining
    /// Too many wrong passwords came from the sender's address, or for the user.
    case wrongLogins = "wrong-logins"
    /// The sources of users do not answer now, so the daemon cannot check the user's password.
    case usersAway = "users-away"
    /// The keys of the bearer token's issuer could not be read yet.
    case keysAway = "keys-away"
    // Refusals with the status 440, 482 or 483.
    /// The request came back to the daemon, or passed too many hops.
    case loop
    // Refusals with the status 400, 416 or 420.
    /// The daemon does not support the syntax, the URI scheme or a required extension of the request.
    case unfit
    /// A REGISTER was refused for a reason without a case of its own; ``TimelineRecord/reason`` has the reason.
    case register
}

/// The kind of the sender of a refused request. The records of refused requests have a limit for each kind of sender,
/// so that strangers cannot displace the records of others.
package enum RefusalShare: String, Hashable, Sendable, CaseIterable {
    case trusted
    /// The sender is a user who sent the right password.
    case user
    case stranger

    /// The maximum number of records of refused requests for one kind of sender.
    package var records: Int {
        switch self {
        case .trusted, .user: 5000
        case .stranger: 2000
        }
    }
}
