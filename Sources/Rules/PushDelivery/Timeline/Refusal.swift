/// The reason why the daemon refused a request without sending it or a push to a phone.
package enum Refusal: String, Hashable, Sendable, CaseIterable {
    // 403
    /// The domain of the Request-URI is not one of the daemon's domains.
    case foreignDomain = "foreign-domain"
    /// The From field names a different user than the Authorization field with the right password.
    case otherIdentity = "other-identity"
    /// The Route of the request contains a dialog token that this daemon did not make.
    case forgedRoute = "forged-route"
    /// Only trusted peers are allowed to send a request with this method outside a dialog.
    case needsTrust = "needs-trust"
    /// The request is a NOTIFY with an event that only trusted peers are allowed to send.
    case command
    /// The From field of a phone's request differs from the From field of the request that began the dialog.
    case otherName = "other-name"
    /// The request is for a user of another domain than its sender, and one of the two domains is a tenant (T41).
    case otherTenant = "other-tenant"
    // 404
    case unknownUser = "unknown-user"
    // 407
    /// The daemon challenged the sender, and got no password. A PBX that is not listed under `trusted` gets this
    /// refusal.
    case notTrusted = "not-trusted"
    // 401, 407
    case wrongPassword = "wrong-password"
    // 480
    case noContact = "no-contact"
    /// The request is for a `sips:` address, but not all hops to the phone would use TLS.
    case notSecure = "not-secure"
    // 481
    /// The method is allowed in a dialog only, but the To field has no tag.
    case needsDialog = "needs-dialog"
    // 486
    /// The callee already has as many active calls as the limit for one callee allows.
    case calleeLimit = "callee-limit"
    // 503
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
    /// Too many wrong passwords came from this source address, or for this user.
    case wrongLogins = "wrong-logins"
    /// The sources of users do not answer now, so the daemon cannot check the user's password.
    case usersAway = "users-away"
    /// The keys of the bearer token's issuer could not be read yet.
    case keysAway = "keys-away"
    // 440, 482, 483
    /// The request came back to the daemon, or passed too many hops.
    case loop
    // 400, 416, 420
    /// The daemon does not support the syntax, the URI scheme or a required extension of the request.
    case unfit
    /// A REGISTER was refused for a reason that has no case here; ``TimelineRecord/reason`` has the reason.
    case register
}

/// The kind of the sender of a refused request. The records of each kind have their own limit, so that strangers cannot
/// displace the records of others.
package enum RefusalShare: String, Hashable, Sendable, CaseIterable {
    case trusted
    /// The sender is a user who sent the right password.
    case user
    case stranger

    /// The maximum number of records for senders of this kind.
    package var records: Int {
        switch self {
        case .trusted, .user: 5000
        case .stranger: 2000
        }
    }
}
