package import Settings

/// How it is found out whether the upstream is there.
package struct UpstreamCheckSettings: SettingsGroup, Equatable {
    package var interval: Duration = .seconds(30)
    package var patience: Duration = .seconds(3)

    package init() {}

    /// The upstream is not watched.
    package static let off: UpstreamCheckSettings = {
        var settings = UpstreamCheckSettings()
        settings.interval = .zero
        return settings
    }()

    package static let schema: [Setting<UpstreamCheckSettings>] = [
        .duration(
            "interval", in: .zero ... .seconds(3600), \.interval,
            "How often the upstream is asked by OPTIONS whether it is there. Any answer will do. While it is away, phones' requests get 503 at once. 0s: it is never asked, and phones wait 32 s."
        ),
        .duration(
            "patience", in: .seconds(1) ... .seconds(20), \.patience,
            "How long the upstream may take to answer OPTIONS. After that it is away until it answers anything."),
    ]
}
