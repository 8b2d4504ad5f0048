package import Settings

/// Whether a call stays in a phone's list of missed calls if the phone got the INVITE and CANCEL after the call's end.
package enum AfterLateInvite: String, Hashable, Sendable, CaseIterable {
    /// The call stays in the list, which is sent immediately (R22).
    case list
    /// The call leaves the list if the phone answered the INVITE, because its app has shown the call. The list is sent
    /// after that answer.
    case none
}

/// The settings for reports of missed calls to phones.
package struct MissedCallSettings: SettingsGroup, Equatable {
    /// The setting; `nil` uses the default of the app's profile.
    package var afterLateInvite: AfterLateInvite?

    package init() {}

    package static let schema: [Setting<MissedCallSettings>] = [
        .value(
            "after-late-invite", \.afterLateInvite, .choice, example: "none",
            "Whether the list of missed calls contains a call that the phone has already shown, because the daemon sent INVITE and CANCEL after the call's end (see after-end). list: the list contains the call and is sent immediately. none: the daemon waits up to two seconds for the phone's response to the INVITE; with a response, the list leaves out the call. Default: none for the payload linphone and for Acrobits, whose apps add such a call to their own list; list for all others. Apps with the payload ecss10 always get the list."
        )
    ]
}

extension PayloadProfile {
    /// ECSS-10 has no exception to R22, so its apps get the list. Apps of Linphone and Acrobits keep their own list and
    /// would show the call twice. Other apps are unknown, and a call that is reported twice does less harm than a call
    /// that is never reported.
    func afterLateInvite(_ wish: AfterLateInvite?) -> AfterLateInvite {
        switch self {
        case .ecss10, .ecss10Extended: .list
        case .tenDarts: wish ?? .list
        case .linphone: wish ?? .none
        }
    }
}

extension PushDirectory {
    package func afterLateInvite(to token: PushToken, _ wish: AfterLateInvite?) -> AfterLateInvite {
        app(for: token).flatMap { self[$0] }?.rules.afterLateInvite(wish) ?? .list
    }

    /// Whether a push to the token can carry a list of missed calls. True if the token belongs to no app, too: the push
    /// itself then reports that problem.
    package func carriesLists(_ token: PushToken) -> Bool {
        app(for: token).flatMap { self[$0] }?.rules.carriesLists(token) ?? true
    }
}
