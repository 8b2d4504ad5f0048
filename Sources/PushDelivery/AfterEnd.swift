/// What a phone gets when it was pushed for a call and has not come before the call's end.
package enum AfterEnd: String, Hashable, Sendable, CaseIterable {
    /// If the phone is back within a minute, it gets the INVITE and at once its CANCEL with the Reason, so that an app
    /// which had to show a call learns how it ended.
    case inviteCancel = "invite-cancel"
    /// It gets a push that tells of the end as soon as the call is over.
    case push
    /// It gets nothing. The call is in its list of missed calls.
    case none
}

extension PushDirectory {
    package func afterEnd(of token: PushToken) -> AfterEnd {
        app(for: token).flatMap { self[$0] }?.rules.afterEnd(of: token) ?? .none
    }
}
