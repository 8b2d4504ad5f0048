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

extension PushApp {
    /// What the settings say or, where they say nothing, what suits the app.
    ///
    /// An app with a VoIP token gets INVITE and CANCEL, because Apple ends apps that do not show a call after a VoIP
    /// push. So does Linphone, which is used to it from Flexisip.
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
