/// The reason why the daemon refused a request before it woke or called any phone.
package enum Refusal: String, Hashable, Sendable, CaseIterable {
    // 403
    /// The domain of the Request-URI is not one of ours.
    case foreignDomain = "foreign-domain"
    /// The From field names another user than the one whose password was sent.
    case otherIdentity = "other-identity"
    /// The Route of the request contains a token that this daemon did not make.
    case forgedRoute = "forged-route"
    /// The method may be sent outside a dialog only by a trusted peer.
    case needsTrust = "needs-trust"
    /// The request is a NOTIFY with an event that only a trusted peer may send.
    case command
    /// The From of a phone's request differs from the From at the beginning of its dialog.
    case otherName = "other-name"
    // 404
    case unknownUser = "unknown-user"
    // 407
    /// The sender was challenged and sent no password. A PBX that is not listed under `trusted` gets this refusal.
    case notTrusted = "not-trusted"
    // 401, 407
    case wrongPassword = "wrong-password"
    // 480
    case noContact = "no-contact"
    /// The request is for a `sips:` address, but one of its hops would not use TLS.
    case notSecure = "not-secure"
    // 481
    /// The method needs a dialog, but To has no tag.
    case needsDialog = "needs-dialog"
    // 486
    /// The callee already has the maximum number of active calls.
    case calleeLimit = "callee-limit"
    // 503
    /// The caller already has the maximum number of active requests.
    case callerLimit = "caller-limit"
    /// The daemon already serves the maximum number of calls.
    case tooManyCalls = "too-many-calls"
    /// The daemon already holds the maximum number of bytes or transactions.
    case noRoom = "no-room"
    /// The daemon is overloaded: more requests arrive than it can serve in time.
    case overload
    /// The phone's request is for the upstream, which does not answer.
    case upstreamAway = "upstream-away"
    /// The daemon is shutting down.
    case draining
    /// Too many wrong passwords came from this source, or for this user.
    case wrongLogins = "wrong-logins"
    /// No source of users says now who the user is.
    case usersAway = "users-away"
    // 440, 482, 483
    /// The call came back to the daemon, or passed too many hops.
    case loop
    // 400, 416, 420
    /// The daemon does not support the form, URI scheme or extensions of the request.
    case unfit
    /// A REGISTER was refused for another reason, which is in ``TimelineRecord/reason``.
    case register
}

/// The kind of sender whose request was refused. Each kind has a part of the store that other senders cannot fill.
package enum RefusalShare: String, Hashable, Sendable, CaseIterable {
    case trusted
    /// A user who sent the right password.
    case user
    case stranger

    /// The maximum number of records of each kind.
    package var records: Int {
        switch self {
        case .trusted, .user: 5000
        case .stranger: 2000
        }
    }
}
