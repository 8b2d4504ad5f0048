package import Settings

/// The settings for notifications, which are pushes that application servers order.
package struct NotificationSettings: SettingsGroup, Hashable {
    package var enabled = false
    package var perDevice = 10

    package init() {}

    package static let schema: [Setting<NotificationSettings>] = [
        .bool(
            "enabled", \.enabled,
            "Let application servers send messages and silent pushes to devices. With `false`, requests to the paths for notifications get 404."
        ),
        .integer(
            "per-device", in: 0...10_000, \.perDevice,
            "The maximum number of notifications to one device in a minute. The daemon skips further notifications to the device. Notifications do not count against `call.pushes-per-device`, but a device whose calls have used up `call.pushes-per-device` gets no notification. The value `0` means that there is no limit."
        ),
    ]
}
