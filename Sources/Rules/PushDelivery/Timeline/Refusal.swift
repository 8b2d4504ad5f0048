/// Why the daemon refused a request before it woke or called any phone.
package enum Refusal: String, Hashable, Sendable, CaseIterable {
    // 403
    /// The Request-URI's domain is not one of ours.
    case foreignDomain = "foreign-domain"
    /// From is not the user whose password was sent.
    case otherIdentity = "other-identity"
    /// The request's Route contains a token that this daemon did not make.
    case forgedRoute = "forged-route"
    /// Outside a dialog only a trusted peer may send that method.
    case needsTrust = "needs-trust"
    /// Only a trusted peer may send a NOTIFY of that event.
    case command
    /// The From of a phone's request differs from the request that began its dialog.
    case otherName = "other-name"
    // 404
    case unknownUser = "unknown-user"
    // 407
    /// The sender was challenged and sent no password. This happens to a PBX that is not listed under `trusted`.
    case notTrusted = "not-trusted"
    // 401, 407
    case wrongPassword = "wrong-password"
    // 480
    case noContact = "no-contact"
    /// The request is for a `sips:` address, and no hop uses TLS.
    case notSecure = "not-secure"
    // 481
    /// The method needs a dialog, and To has no tag.
    case needsDialog = "needs-dialog"
    // 486
    /// The limit of active calls to this user is reached.
    case calleeLimit = "callee-limit"
    // 503
    /// The limit of active requests of this caller is reached.
    case callerLimit = "caller-limit"
    /// The limit of calls that the daemon serves at a time is reached.
    case tooManyCalls = "too-many-calls"
    /// The limit of stored bytes or transactions is reached.
    case noRoom = "no-room"
    /// Overload: more requests arrive than can be served in time.
    case overload
    /// The upstream, to which the phone's request would go, does not answer.
    case upstreamAway = "upstream-away"
    /// The daemon is shutting down.
    case draining
    /// Too many wrong passwords came from this source, or for this user.
    case wrongLogins = "wrong-logins"
    /// No source of users says now who the user is.
    case usersAway = "users-away"
    // 440, 482, 483
    /// The call came back, or passed too many hops.
    case loop
    // 400, 416, 420
    /// Its form, URI scheme or extensions are not supported.
    case unfit
    /// A REGISTER was refused for another reason, which is in ``TimelineRecord/reason``.
    case register
}

/// The kind of sender that caused a record of a refusal. Each kind has its own part of the store, which other senders
/// cannot fill.
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
