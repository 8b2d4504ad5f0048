package import Settings

/// The settings that the payloads of all providers use.
package struct PayloadSettings: Hashable, Sendable {
    package var inviteMargin: Duration = .seconds(2)
    package var missedCallsTTL: Duration = .seconds(120)
    package var texts = PushTexts()

    package init() {}
}

/// The texts in pushes that a phone shows unchanged, for payload formats that contain texts.
package struct PushTexts: SettingsGroup, Hashable {
    package var incomingCall = "Incoming call"
    package var missedCalls = "Missed calls"
    package var anonymous = "Anonymous"

    package init() {}

    package static let schema: [Setting<PushTexts>] = [
        .string("incoming-call", \.incomingCall, "The title of a push for a call."),
        .string("missed-calls", \.missedCalls, "The title of a push with a list of missed calls."),
        .string("anonymous", \.anonymous, "The text that phones show as the name of an anonymous caller."),
    ]
}
