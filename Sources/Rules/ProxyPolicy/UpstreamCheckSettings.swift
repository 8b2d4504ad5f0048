package import Settings

/// Settings of the checks whether the upstream answers.
package struct UpstreamCheckSettings: SettingsGroup, Equatable {
    package var interval: Duration = .seconds(30)
    package var patience: Duration = .seconds(3)

    package init() {}

    /// Settings with which the daemon never checks the upstream.
    package static let off: UpstreamCheckSettings = {
        var settings = UpstreamCheckSettings()
        settings.interval = .zero
        return settings
    }()

    package static let schema: [Setting<UpstreamCheckSettings>] = [
        .duration(
            "interval", in: .zero ... .seconds(3600), \.interval,
            "How often the daemon sends OPTIONS to the upstream. Any response to OPTIONS shows that the upstream is alive. While the upstream does not respond to OPTIONS, requests of phones get 503 immediately. With `0s`, the daemon sends no OPTIONS to the upstream; if the upstream is down, a caller then waits 32 s for a failure response."
        ),
        .duration(
            "patience", in: .seconds(1) ... .seconds(20), \.patience,
            "The time limit for the upstream's answer to OPTIONS. If the upstream does not answer within this time, the daemon treats the upstream as down until the upstream answers a request."
        ),
    ]
}
