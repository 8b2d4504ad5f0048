package import Settings

/// Whether a call stays in the list of missed calls if the phone got the call's INVITE and CANCEL after the call's end.
package enum AfterLateInvite: String, Hashable, Sendable, CaseIterable {
    /// The call stays in the list of missed calls; the list is sent as soon as the phone registers (R22).
    case list
    /// A call whose late INVITE the phone answers leaves the list of missed calls, because the app shows the call
    /// itself. The list of missed calls is sent after the phone has answered the late INVITE.
    case none
}

/// Settings for the reports of missed calls to phones.
package struct MissedCallSettings: SettingsGroup, Equatable {
    /// Whether a call stays in the list of missed calls after a late INVITE; `nil` for the default of the app's payload
    /// format.
    package var afterLateInvite: AfterLateInvite?

    package init() {}

    package static let schema: [Setting<MissedCallSettings>] = [
        .value(
            "after-late-invite", \.afterLateInvite, .choice, example: "none",
            "Whether the list of missed calls contains a call that the phone has already shown. A phone shows such a call if the daemon sends INVITE and CANCEL after the call's end (see `after-end`). With `list`, the list of missed calls contains the call, and the daemon sends the list immediately. With `none`, the daemon waits up to two seconds for the phone's response to the INVITE, and the list of missed calls omits the call if the phone responds. By default, `after-late-invite` is `none` for the payload `linphone` and for Acrobits, because these apps list such calls themselves. For all other apps, the default is `list`. For apps with the payload `ecss10`, the list always contains the call."
        )
    ]
}

extension PayloadProfile {
    /// Whether a call stays in the list of missed calls after a late INVITE, by the setting `wish` and the payload
    /// format.
    ///
    /// ECSS-10 has no exception to R22, so a call stays in the list with ECSS-10's payload format. Linphone's apps keep
    /// their own list of missed calls, and would show the call twice. All other apps get the call in their list of
    /// missed calls by default, because a call shown twice is better than a lost call.
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

    /// Whether a push to the token can carry a list of missed calls; also true for a token that belongs to no app,
    /// because sending the list then reports the problem.
    package func carriesLists(_ token: PushToken) -> Bool {
        app(for: token).flatMap { self[$0] }?.rules.carriesLists(token) ?? true
    }
}
