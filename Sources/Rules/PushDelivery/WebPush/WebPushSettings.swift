import Bytes
package import Settings

/// The settings for web push to browsers, and to apps with their own web push subscription (RFC 8030).
package struct WebPushSettings: SettingsGroup, Equatable {
    package var enabled = false
    package var hosts = WebPushHost.known
    package var anyHost = false
    package var anyHostPorts: [Int] = []
    package var privateHosts: [WebPushHost] = []
    package var hostRate = 50
    package var hostQueue = 500
    package var payload = PayloadProfile.ecss10
    package var afterEnd = AfterEnd.none
    package var keyFile: String?
    package var contact: String?
    package var caFile: String?
    package var proxy: PushProxy?
    package var limits = ProviderLimits()

    package init() {}

    package static let schema: [Setting<WebPushSettings>] = [
        .enabled(\.enabled, pushesTo: "devices with a web push subscription"),
        .list(
            "hosts", of: WebPushHost.settingType, \.hosts,
            "The allowed push services: host, host:port, or *.suffix for all hosts below a name. If the host of a REGISTER's push URL is not in the list, the daemon treats the REGISTER like a REGISTER with an unknown provider. Without the list of hosts, a phone could make the daemon send requests to any host."
        ),
        .bool(
            "any-host", \.anyHost,
            "Also send pushes to push servers that phones choose (UnifiedPush). The daemon sends such a push only over https, only to port 443 or a port in `any-host-ports`, and only if the host has only public addresses of other machines. The device must have keys in `pn-param`. By default, only servers in `hosts` and `private-hosts` get pushes. docs/Providers.md has all rules."
        ),
        .list(
            "any-host-ports", of: .integer(in: 1...65_535), \.anyHostPorts,
            "Further ports of push servers that phones choose, besides 443. `any-host-ports` has an effect only if `any-host` is `true`. Add a port if your users run push servers at this port."
        ),
        .list(
            "private-hosts", of: WebPushHost.settingType, \.privateHosts,
            "Push servers of your own network: `host`, `host:port`, or `*.suffix`. The hosts may have private addresses, and get pushes even without `any-host`. The limits `host-rate` and `host-queue` also apply to these hosts. The daemon never sends pushes to its own listeners."
        ),
        .integer(
            "host-rate", in: 1...10_000, \.hostRate,
            "The maximum number of requests in a second to each host that `any-host` or `private-hosts` allows. Further pushes to the host wait. Raise `host-rate` if many users share one of your own push servers."
        ),
        .integer(
            "host-queue", in: 1...10_000, \.hostQueue,
            "The maximum number of pushes that wait for one host that `any-host` or `private-hosts` allows. When the queue of the host is full, a further push to the host fails; other hosts are not affected."
        ),
        .payload(
            \.payload,
            " The daemon sends payloads to devices whose `pn-param` is `P256DH.AUTH`, the keys of their subscription in base64url. Pushes to devices whose `pn-param` has a different form have no payload. With `ecss10`, devices at push servers that phones choose get `ecss10.extended`."
        ),
        .afterEnd(\.afterEnd),
        .path(
            "vapid-key-file", \.keyFile, example: "/etc/sippushd/vapid.pem",
            "The VAPID key that signs requests to push services: a PEM file with a key on the curve P-256 (RFC 8292). Apps need the public key to subscribe; the 200 to a REGISTER contains the public key as `+sip.vapid`."
        ).taken(.atOnce),
        .value(
            "vapid-contact", \.contact, contactType, example: "mailto:push@example.net",
            "The mailto: or https: URI at which push services can reach you about problems."
        ).taken(.atOnce),
        .authorities(\.caFile, of: "a push service"),
        .proxy(\.proxy),
        .group("limits", \.limits, "Limits of parallel requests to each push service."),
    ]

    private static let contactType = SettingType<String>.checked("URI") { text throws(SettingComplaint) in
        guard text.hasPrefix("mailto:") || text.hasPrefix("https:"), text.utf8.count <= 256,
            ByteString(text).isURLText
        else { throw SettingComplaint("expected a mailto: or https: URI") }
    }

    static let proxyComplaint =
        "expected webpush.proxy: none, since any-host and private-hosts need direct connections to the push servers"

    /// Whether the settings allow push servers that phones choose.
    package var hasChosenHosts: Bool { anyHost || !privateHosts.isEmpty }

    package func complaints() -> [SettingComplaint] {
        guard enabled else { return [] }
        var found: [SettingComplaint] = []
        if keyFile == nil {
            found.append(SettingComplaint("expected vapid-key-file, since webpush is enabled", key: "enabled"))
        }
        if contact == nil {
            found.append(SettingComplaint("expected vapid-contact, since webpush is enabled", key: "enabled"))
        }
        // A proxy would resolve the host's name itself, so the daemon could not check the addresses.
        if hasChosenHosts, case .http? = proxy { found.append(SettingComplaint(Self.proxyComplaint, key: "proxy")) }
        if hosts.isEmpty, !hasChosenHosts { found.append(SettingComplaint("expected at least one host", key: "hosts")) }
        return found
    }
}
