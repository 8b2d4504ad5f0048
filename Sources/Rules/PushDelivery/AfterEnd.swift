/// The message for a phone that got a push for a call and did not register before the call's end.
package enum AfterEnd: String, Hashable, Sendable, CaseIterable {
    /// If the phone registers within a minute, it gets the INVITE and immediately a CANCEL with the Reason. So an app
    /// that had to show a call learns how the call ended.
    case inviteCancel = "invite-cancel"
    /// The phone gets a push about the end as soon as the call is over.
    case push
    /// The phone gets no message about the end. The call is in the phone's list of missed calls.
    case none
}

extension PushDirectory {
    package func afterEnd(of token: PushToken) -> AfterEnd {
        app(for: token).flatMap { self[$0] }?.rules.afterEnd(of: token) ?? .none
    }
}
