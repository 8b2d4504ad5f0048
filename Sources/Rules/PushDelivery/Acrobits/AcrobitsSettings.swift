package import Settings

/// The settings for Acrobits' push server, which sends pushes to apps made with Acrobits' tools, such as Cloud
/// Softphone.
package struct AcrobitsSettings: SettingsGroup, Equatable {
    package var enabled = false
    package var endpoint = "https://pnm.cloudsoftphone.com"
    package var afterEnd = AfterEnd.push
    package var caFile: String?
    package var proxy: PushProxy?
    package var limits = ProviderLimits()

    package init() {}

    package static let schema: [Setting<AcrobitsSettings>] = [
        .enabled(\.enabled, pushesTo: "Acrobits apps through Acrobits' push server"),
        .string("endpoint", \.endpoint, "The URL of Acrobits' push server: scheme, host and port."),
        .choice(
            "after-end", \.afterEnd,
            "How the daemon tells a phone that a call has ended, if the phone got a push for the call and has not registered since. With `push`, the daemon sends the phone a push that reports the end of the call, because Acrobits apps show a call as soon as its push arrives. With `invite-cancel`, when the phone registers within a minute, the daemon sends the INVITE and its CANCEL. With `none`, the daemon does not tell the phone that the call has ended."
        ),
        .authorities(\.caFile),
        .proxy(\.proxy),
        .group("limits", \.limits, "Limits of parallel requests to Acrobits' push server."),
    ]

    /// The URL of Acrobits' push server, without a trailing slash.
    package var baseURL: String { endpoint.withoutTrailingSlash }
}
