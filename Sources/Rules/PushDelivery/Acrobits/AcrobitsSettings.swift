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
            "Send pushes to Acrobits apps through their mediator. If false, their contacts are ordinary ones and expire."
        ),
        .string("endpoint", \.endpoint, "The mediator's URL: scheme, host and port."),
        .choice(
            "after-end", \.afterEnd,
            "The message for a phone that was pushed for a call and registers only after the call's end. push: a push about the end, sent immediately, because these apps show a call as soon as its push arrives. invite-cancel: INVITE and CANCEL if it registers within a minute. none: nothing."
        ),
        .path("ca-file", \.caFile, example: "/etc/sippushd/ca.pem", "Certificate authorities for that server, PEM.")
            .taken(.atOnce),
        .proxy(\.proxy),
        .group("limits", \.limits, "Limits of parallel requests to the mediator."),
    ]

    /// The mediator's URL, without a slash at its end.
    package var baseURL: String { endpoint.withoutTrailingSlash }
}
