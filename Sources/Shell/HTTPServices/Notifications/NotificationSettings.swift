package import Settings

/// The settings for pushes that application servers order.
package struct NotificationSettings: SettingsGroup, Hashable {
    package var enabled = false
    package var perDevice = 10

    package init() {}

    package static let schema: [Setting<NotificationSettings>] = [
        .bool(
            "enabled", \.enabled,
            "Let application servers send messages and silent pushes to devices. If false, the paths are not served."
        ),
        .integer(
            "per-device", in: 0...10_000, \.perDevice,
            "The maximum number of notifications to one device in a minute; further ones are skipped. They do not count for call.pushes-per-device, but are skipped while calls have used up that limit. 0: no limit."
        ),
    ]
}
