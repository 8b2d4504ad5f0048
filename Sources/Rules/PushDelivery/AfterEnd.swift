/// The message for a phone that got a push for a call and registers only after the call's end.
package enum AfterEnd: String, Hashable, Sendable, CaseIterable {
    /// If the phone registers within a minute, it gets the INVITE and immediately its CANCEL with the Reason. An app
    /// that had to show a call then learns how the call ended.
    case inviteCancel = "invite-cancel"
    /// The phone gets a push about the end as soon as the call is over.
    case push
    /// The phone gets nothing at that time. The call is in its list of missed calls.
    case none
}

extension PushDirectory {
    package func afterEnd(of token: PushToken) -> AfterEnd {
        app(for: token).flatMap { self[$0] }?.rules.afterEnd(of: token) ?? .none
    }
}
