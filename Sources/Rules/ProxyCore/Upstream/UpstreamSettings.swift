package import Settings

/// How the daemon checks whether the upstream answers.
package struct UpstreamCheckSettings: SettingsGroup, Equatable {
    package var interval: Duration = .seconds(30)
    package var patience: Duration = .seconds(3)

    package init() {}

    /// Settings with which the upstream is never checked.
    package static let off: UpstreamCheckSettings = {
        var settings = UpstreamCheckSettings()
        settings.interval = .zero
        return settings
    }()

    package static let schema: [Setting<UpstreamCheckSettings>] = [
        .duration(
            "interval", in: .zero ... .seconds(3600), \.interval,
            "How often the daemon sends OPTIONS to the upstream. Any answer counts. While the upstream does not answer, phones' requests get 503 immediately. 0s: never, and phones wait 32 s for a dead upstream."
        ),
        .duration(
            "patience", in: .seconds(1) ... .seconds(20), \.patience,
            "The time limit for the upstream's answer to OPTIONS. Without one it counts as down until it answers any request."
        ),
    ]
}
