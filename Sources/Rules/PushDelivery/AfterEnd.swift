/// How a phone learns of a call's end if the phone got a push for the call and did not register before the end.
package enum AfterEnd: String, Hashable, Sendable, CaseIterable {
    /// A phone that registers within a minute gets the INVITE and immediately a CANCEL with a Reason. The CANCEL tells
    /// an app that had to show the call how the call ended.
    case inviteCancel = "invite-cancel"
    /// The phone gets a push about the call's end as soon as the call ends.
    case push
    /// The phone gets neither an INVITE nor a push after the call's end.
    case none
}

extension PushDirectory {
    package func afterEnd(of token: PushToken) -> AfterEnd {
        app(for: token).flatMap { self[$0] }?.rules.afterEnd(of: token) ?? .none
    }
}
