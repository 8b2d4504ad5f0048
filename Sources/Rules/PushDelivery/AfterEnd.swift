/// The message for a phone that was pushed for a call and registers only after the call's end.
package enum AfterEnd: String, Hashable, Sendable, CaseIterable {
    /// If the phone registers within a minute, it gets the INVITE and immediately its CANCEL with the Reason, so that
    /// an app which had to show a call learns how it ended.
    case inviteCancel = "invite-cancel"
    /// It gets a push about the end as soon as the call is over.
    case push
    /// It gets nothing. The call is in its list of missed calls.
    case none
}

extension PushApp {
    /// The value of the settings or, if they have none, the default for the app.
    ///
    /// An app with a VoIP token gets INVITE and CANCEL, because iOS ends apps that do not show a call after a VoIP
    /// push. So does Linphone, which expects them from Flexisip.
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
