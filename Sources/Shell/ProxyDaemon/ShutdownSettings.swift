package import Settings

/// The settings under `shutdown`: how the daemon stops.
package struct ShutdownSettings: SettingsGroup, Equatable {
    package var drainTime: Duration = .zero

    package init() {}

    package static let schema: [Setting<ShutdownSettings>] = [
        .duration(
            "drain-time", in: .zero ... .seconds(3600), \.drainTime,
            "How long the daemon waits, after SIGTERM, for calls that wait or ring. During `drain-time`, the daemon answers new calls with 503. The daemon stops earlier when the last waiting or ringing call has ended, and immediately after a second SIGTERM. With `0s`, the daemon stops without waiting for calls."
        )
    ]
}
