package import Settings

/// Settings of the mediator that sends pushes for apps made with Acrobits' tools, such as Cloud Softphone.
package struct AcrobitsSettings: SettingsGroup, Equatable {
    package var enabled = false
    package var endpoint = "https://pnm.cloudsoftphone.com"
    package var afterEnd = AfterEnd.push
    package var caFile: String?
    package var proxy: PushProxy?
    package var limits = ProviderLimits()

    package init() {}

    package static let schema: [Setting<AcrobitsSettings>] = [
        .bool(
            "enabled", \.enabled,
            "Send pushes to Acrobits apps through Acrobits' mediator. If false, registrar.unsupported-push decides about contacts with pn-provider=acrobits."
        ),
        .string("endpoint", \.endpoint, "The mediator's URL: scheme, host and port."),
        .choice(
            "after-end", \.afterEnd,
            "How a phone is told that a call has ended, if it got a push for the call and has not registered. push: the phone gets an end push when the call ends, because these apps show a call as soon as its push arrives. invite-cancel: when the phone registers within a minute, it gets the INVITE and its CANCEL. none: the phone is not told."
        ),
        .path("ca-file", \.caFile, example: "/etc/sippushd/ca.pem", "Certificate authorities for that server, PEM.")
            .taken(.atOnce),
        .proxy(\.proxy),
        .group("limits", \.limits, "Limits of parallel requests to the mediator."),
    ]

    /// The mediator's URL, without a slash at its end.
    package var baseURL: String { endpoint.withoutTrailingSlash }
}
