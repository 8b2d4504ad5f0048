import Settings

// The settings that most push services have. The texts are here once, so that sample and manual use the same words.

extension Setting where Group: PushServiceSettings {
    /// The setting that switches a push service on, with the key `enabled`.
    static func enabled(_ path: SettingPath<Group, Bool>, pushesTo devices: String) -> Setting {
        let providers = Group.providers.map(\.rawValue).joined(separator: "` or `")
        return bool(
            "enabled", path,
            "Send pushes to \(devices). If `false`, `registrar.unsupported-push` decides how the daemon treats contacts with `pn-provider=\(providers)`."
        )
    }
}

extension Setting {
    /// The setting for an app's payload format, with the key `payload`.
    static func payload(_ path: SettingPath<Group, PayloadProfile>, _ more: String = "") -> Setting {
        choice("payload", path, payloadHelp + more)
    }

    /// The setting for the payload format of an app that has no fixed default.
    static func payload(_ path: SettingPath<Group, PayloadProfile?>, _ more: String) -> Setting {
        value("payload", path, .choice, example: "ecss10", payloadHelp + more)
    }

    private static var payloadHelp: String {
        "The payload format of the app: `ecss10`, `ecss10.extended`, `10d` (10darts), or `linphone` (as sent by Flexisip); docs/App-developers.md shows each format."
    }

    /// The setting that decides how phones learn of a call's end, with the key `after-end`.
    static func afterEnd(_ path: SettingPath<Group, AfterEnd>) -> Setting {
        choice("after-end", path, afterEndHelp)
    }

    /// The setting `after-end` of an app whose default is `invite-cancel` for the given apps, and `none` for all other
    /// apps.
    static func afterEnd(_ path: SettingPath<Group, AfterEnd?>, inviteCancelFor apps: String) -> Setting {
        value(
            "after-end", path, .choice, example: "invite-cancel",
            "\(afterEndHelp) By default, `after-end` is `invite-cancel` for \(apps), and `none` for all other apps.")
    }

    private static var afterEndHelp: String {
        "How the daemon tells a phone that a call has ended, if the phone got a push for the call and has not registered since. With `invite-cancel`, when the phone registers within a minute, the daemon sends the INVITE and its CANCEL, so that the app ends the call on its screen. With `push`, the daemon sends the phone a push that reports the end of the call (an end push), for apps that support end pushes (docs/Providers.md). With `none`, the daemon does not tell the phone that the call has ended."
    }

    /// The setting for the file of trusted certificate authorities, with the key `ca-file`.
    static func authorities(_ path: SettingPath<Group, String?>, of server: String = "the push server") -> Setting {
        self.path(
            "ca-file", path, example: "/etc/sippushd/ca.pem",
            "The certificate authorities (PEM) that the daemon trusts when it connects to \(server). By default, the daemon trusts the system's authorities."
        ).taken(.atOnce)
    }
}
