/// How the daemon notifies a phone of a call's end, if the phone got a push for the call and did not register before
/// the end.
package enum AfterEnd: String, Hashable, Sendable, CaseIterable {
    /// The phone gets the INVITE and immediately a CANCEL with a Reason, if it registers within a minute. The CANCEL
    /// tells an app that had to show the call how the call ended.
    case inviteCancel = "invite-cancel"
    /// The phone gets an end push as soon as the call is over.
    case push
    /// The phone is not told about the end. The call is in the phone's list of missed calls.
    case none
}

extension PushDirectory {
    package func afterEnd(of token: PushToken) -> AfterEnd {
        app(for: token).flatMap { self[$0] }?.rules.afterEnd(of: token) ?? .none
    }
}
