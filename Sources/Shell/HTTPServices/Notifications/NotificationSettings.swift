package import Settings

/// The settings for pushes that application servers order.
package struct NotificationSettings: SettingsGroup, Hashable {
    package var enabled = false
    package var perDevice = 10

    package init() {}

    package static let schema: [Setting<NotificationSettings>] = [
        .bool(
            "enabled", \.enabled,
            "Let application servers send messages and silent pushes to devices. If false, the paths for notifications get 404."
        ),
        .integer(
            "per-device", in: 0...10_000, \.perDevice,
            "The maximum number of notifications to one device in a minute; further ones are skipped. Notifications do not count for call.pushes-per-device, but a device whose calls have used up call.pushes-per-device gets none. 0: no limit."
        ),
    ]
}
