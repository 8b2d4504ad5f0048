/// Why a request was refused here, before anybody was woken or called.
package enum Refusal: String, Hashable, Sendable, CaseIterable {
    // 403
    /// The Request-URI names a domain that is none of ours.
    case foreignDomain = "foreign-domain"
    /// From is not the user whose password was shown.
    case otherIdentity = "other-identity"
    /// Its Route holds a token that was not made here.
    case forgedRoute = "forged-route"
    /// Outside a dialog only a trusted peer may send that method.
    case needsTrust = "needs-trust"
    /// Only a trusted peer may send a NOTIFY of that event.
    case command
    /// A phone names somebody else in From than at the beginning of its dialog.
    case otherName = "other-name"
    // 404
    case unknownUser = "unknown-user"
    // 407
    /// The sender was asked for a password, and showed none. So it goes to a PBX that is not listed under `trusted`.
    case notTrusted = "not-trusted"
    // 401, 407
    case wrongPassword = "wrong-password"
    // 480
    case noContact = "no-contact"
    /// It is for a `sips:` address, and there is no protected hop.
    case notSecure = "not-secure"
    // 481
    /// The method needs a dialog, and To has no tag.
    case needsDialog = "needs-dialog"
    // 486
    /// As many calls to this user are under way as there may be.
    case calleeLimit = "callee-limit"
    // 503
    /// As much of this caller is under way as there may be.
    case callerLimit = "caller-limit"
    /// As many calls are under way as the daemon serves at a time.
    case tooManyCalls = "too-many-calls"
    /// As many bytes or transactions are kept as there may be.
    case noRoom = "no-room"
    /// More comes than can be served in time.
    case overload
    /// A phone's request, whose upstream does not answer.
    case upstreamAway = "upstream-away"
    /// The daemon is about to end.
    case draining
    /// Too many wrong passwords came from there, or for this user.
    case wrongLogins = "wrong-logins"
    /// A REGISTER that was refused for another reason, which ``TimelineRecord/reason`` says.
    case register
}

/// Who caused a record that anybody can cause. Each has a part of the store that the others cannot take.
package enum RefusalShare: String, Hashable, Sendable, CaseIterable {
    case trusted
    /// A user who has shown a password.
    case user
    case stranger

    /// How many records of each are kept.
    package var records: Int {
        switch self {
        case .trusted, .user: 5000
        case .stranger: 2000
        }
    }
}
