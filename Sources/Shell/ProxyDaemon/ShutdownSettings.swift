package import Settings

/// The settings under `shutdown`: how the daemon stops.
package struct ShutdownSettings: SettingsGroup, Equatable {
    package var drainTime: Duration = .zero

    package init() {}

    package static let schema: [Setting<ShutdownSettings>] = [
        .duration(
            "drain-time", in: .zero ... .seconds(3600), \.drainTime,
            "How long SIGTERM waits for calls that wait or ring; new calls get 503 meanwhile. The daemon stops earlier when the last such call ends, and immediately after a second SIGTERM. 0s: do not wait."
        )
    ]
}
