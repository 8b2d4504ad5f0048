package import Settings

/// How the daemon ends.
package struct ShutdownSettings: SettingsGroup, Equatable {
    package var drainTime: Duration = .zero

    package init() {}

    package static let schema: [Setting<ShutdownSettings>] = [
        .duration(
            "drain-time", in: .zero ... .seconds(3600), \.drainTime,
            "How long SIGTERM gives calls that wait or ring to end, while INVITEs for new calls get 503. A daemon without such calls ends at once, as any does after a second SIGTERM. 0s: no time."
        )
    ]
}
