/// What a phone gets that was pushed for a call and is back within a minute of the call's end.
package enum AfterEnd: String, Hashable, Sendable, CaseIterable {
    /// The INVITE, and at once its CANCEL with the Reason: an app that had to show a call learns how it ended.
    case inviteCancel = "invite-cancel"
    /// A push that says so, as soon as the call is over.
    case push
    /// Nothing; what it missed is in its list of missed calls.
    case none
}

extension PushApp {
    /// What the settings say, else what becomes the app: Apple ends apps that are told of a call by a VoIP push and then
    /// show none, and Linphone knows calls from Flexisip, which does the same.
    package func afterEnd(of token: PushToken) -> AfterEnd {
        switch service {
        case .apns(let settings):
            if let wished = settings.afterEnd { return wished }
            let tokens = try? APNsToken(token, withoutService: settings.tokenService)
            return tokens?.voip != nil || settings.payload == .linphone ? .inviteCancel : .none
        case .fcm(let settings): return settings.afterEnd ?? (settings.payload == .linphone ? .inviteCancel : .none)
        case .webPush(let settings): return settings.afterEnd
        case .acrobits(let settings): return settings.afterEnd
        case .http(let settings): return settings.afterEnd
        }
    }
}

extension PushDirectory {
    package func afterEnd(of token: PushToken) -> AfterEnd {
        app(for: token).flatMap { self[$0] }?.afterEnd(of: token) ?? .none
    }
}
