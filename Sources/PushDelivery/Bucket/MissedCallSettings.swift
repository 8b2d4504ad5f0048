package import Settings

/// Whether a call is in a phone's list of missed calls when the phone has had its INVITE and CANCEL after the call's end.
package enum AfterLateInvite: String, Hashable, Sendable, CaseIterable {
    /// It is, and the list goes at once (R22).
    case list
    /// It is not, if the phone has answered that INVITE: its app has shown the call. The phone is asked before the list goes.
    case none
}

/// What phones are told of calls that they missed.
package struct MissedCallSettings: SettingsGroup, Equatable {
    /// Not set: as the app's profile wants it.
    package var afterLateInvite: AfterLateInvite?

    package init() {}

    package static let schema: [Setting<MissedCallSettings>] = [
        .value(
            "after-late-invite", \.afterLateInvite, .choice, example: "none",
            "Whether a call is in the list of missed calls when its phone has had the INVITE and CANCEL after its end (after-end: invite-cancel). list: it is, and the list goes at once. none: not when the phone has answered that INVITE; the list waits two seconds for that answer. Not set: none for the payload linphone and for Acrobits, whose apps enter such a call in their own list; list for all others. Apps with the payload ecss10 always get the list."
        )
    ]
}

extension PayloadProfile {
    /// ECSS-10 knows no exception to R22, so its apps get the list. Linphone and Acrobits' apps keep a list of calls by themselves, and
    /// would show the call twice. Of other apps nobody knows that: a call that is told twice does less harm than one that is never told.
    func afterLateInvite(_ wish: AfterLateInvite?) -> AfterLateInvite {
        switch self {
        case .ecss10: .list
        case .tenDarts: wish ?? .list
        case .linphone: wish ?? .none
        }
    }
}

extension PushDirectory {
    package func afterLateInvite(to token: PushToken, _ wish: AfterLateInvite?) -> AfterLateInvite {
        app(for: token).flatMap { self[$0] }?.rules.afterLateInvite(wish) ?? .list
    }

    /// True also where no app is meant by the token: then the push says what is wrong.
    package func carriesLists(_ token: PushToken) -> Bool {
        app(for: token).flatMap { self[$0] }?.rules.carriesLists(token) ?? true
    }
}
