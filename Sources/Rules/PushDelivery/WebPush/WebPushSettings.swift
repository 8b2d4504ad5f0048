import Bytes
package import Settings

/// Web push: browsers and apps with a subscription of their own (RFC 8030).
package struct WebPushSettings: SettingsGroup, Equatable {
    package var enabled = false
    package var hosts = WebPushHost.known
    package var payload = PayloadProfile.ecss10
    package var afterEnd = AfterEnd.none
    package var keyFile: String?
    package var contact: String?
    package var caFile: String?
    package var limits = PushLimits()

    package init() {}

    package static let schema: [Setting<WebPushSettings>] = [
        .bool(
            "enabled", \.enabled,
            "Whether devices with a web push subscription are pushed. Switched off, their contacts become ordinary ones and expire."
        ),
        .list(
            "hosts", of: WebPushHost.settingType, \.hosts,
            "The push services that subscriptions may be at: host, host:port, or *.suffix for all hosts below a name. A device with a subscription elsewhere is answered like one whose provider is unknown: its URL makes this daemon send requests."
        ),
        .choice(
            "payload", \.payload,
            "The messages that the app understands: ecss10, 10d (10darts), or linphone (as Flexisip writes them). They go to devices whose pn-param is P256DH.AUTH, the keys of their subscription in base64url; others are woken without a message."
        ),
        .choice(
            "after-end", \.afterEnd,
            "What a phone gets that was pushed for a call and has not come before its end: invite-cancel (if it is back within a minute, the INVITE and at once its CANCEL, so that an app that had to show a call learns how it ended), push (at once one that says so, for an app that knows it: docs/Providers.md), or none."
        ),
        .path(
            "vapid-key-file", \.keyFile, example: "/etc/sippushd/vapid.pem",
            "The key that signs our requests, PEM, on the curve P-256 (RFC 8292). Apps subscribe for its public key, which registrations announce as +sip.vapid."
        ),
        .value(
            "vapid-contact", \.contact, contactType, example: "mailto:push@example.net",
            "Whom a push service may tell when our requests make trouble: a mailto: or https: URI."),
        .path("ca-file", \.caFile, example: "/etc/sippushd/ca.pem", "Certificate authorities for these servers, PEM."),
        .group("limits", \.limits, "How much is sent to each push service at a time."),
    ]

    private static let contactType = SettingType<String>.parsed("URI") { text throws(SettingComplaint) in
        guard text.hasPrefix("mailto:") || text.hasPrefix("https:"), text.utf8.count <= 256,
            ByteString(text).isURLText
        else { throw SettingComplaint("expected a mailto: or https: URI") }
        return text
    } print: {
        $0
    }

    package func complaints() -> [SettingComplaint] {
        guard enabled else { return [] }
        var found: [SettingComplaint] = []
        if keyFile == nil {
            found.append(SettingComplaint("expected vapid-key-file, since webpush is enabled", key: "enabled"))
        }
        if contact == nil {
            found.append(SettingComplaint("expected vapid-contact, since webpush is enabled", key: "enabled"))
        }
        if hosts.isEmpty { found.append(SettingComplaint("expected at least one host", key: "hosts")) }
        return found
    }
}
