package import Settings

/// The mediator that pushes for apps made with Acrobits' tools, such as Cloud Softphone.
package struct AcrobitsSettings: SettingsGroup, Equatable {
    package var enabled = false
    package var endpoint = "https://pnm.cloudsoftphone.com"
    package var afterEnd = AfterEnd.push
    package var caFile: String?
    package var limits = PushLimits()

    package init() {}

    package static let schema: [Setting<AcrobitsSettings>] = [
        .bool(
            "enabled", \.enabled,
            "Whether Acrobits apps are pushed through their mediator. Switched off, their contacts become ordinary ones and expire."
        ),
        .string("endpoint", \.endpoint, "The mediator: scheme, host and port."),
        .choice(
            "after-end", \.afterEnd,
            "What a phone gets that was pushed for a call and has not come before its end: push (at once, since these apps show a call from its push on), invite-cancel (if it is back within a minute, the INVITE and at once its CANCEL), or none."
        ),
        .path("ca-file", \.caFile, example: "/etc/sippushd/ca.pem", "Certificate authorities for that server, PEM."),
        .group("limits", \.limits, "How much is sent to the mediator at a time."),
    ]

    /// The mediator's URL, without a slash at its end.
    package var baseURL: String { endpoint.withoutTrailingSlash }
}
