package import Settings

/// Pushes that application servers order.
package struct NotificationSettings: SettingsGroup, Hashable {
    package var enabled = false
    package var perDevice = 10

    package init() {}

    package static let schema: [Setting<NotificationSettings>] = [
        .bool(
            "enabled", \.enabled,
            "Whether application servers may send messages and silent pushes to devices. Off, the paths are not served."
        ),
        .integer(
            "per-device", in: 0...10_000, \.perDevice,
            "Notifications that one device gets in a minute; the rest is skipped. They take nothing of call.pushes-per-device, and stop while calls have used that up. 0: no limit."
        ),
    ]
}
