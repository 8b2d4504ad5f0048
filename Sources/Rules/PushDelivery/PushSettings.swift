package import Addressing
package import Settings

/// The settings of each push provider, and the push settings for all providers.
package struct PushSettings: SettingsGroup, Equatable {
    package var apns = APNsSettings()
    package var fcm = FCMSettings()
    package var webPush = WebPushSettings()
    package var acrobits = AcrobitsSettings()
    package var http = HTTPPushSettings()
    package var ruStore = RuStoreSettings()
    package var hms = HMSSettings()
    package var payload = PayloadSettings()
    package var requestTimeout: Duration = .seconds(5)
    package var timeline = TimelineSettings()
    package var sourceAddress: IPAddress?
    package var proxy: PushProxy?
    package var triesCredentials = true

    package init() {}

    package static let schema: [Setting<PushSettings>] = [
        .group("apns", \.apns, "Apple Push Notification service."),
        .group("fcm", \.fcm, "Firebase Cloud Messaging."),
        .group("webpush", \.webPush, "Web push: browsers, and apps with their own subscription (RFC 8030)."),
        .group(
            "acrobits", \.acrobits,
            "The push server of Acrobits, which sends pushes to apps that were made with Acrobits' tools."),
        .group("rustore", \.ruStore, "The push service of RuStore, an app store for Android."),
        .group("hms", \.hms, "Huawei's Push Kit, for Android phones with HMS Core."),
        .group("http", \.http, "Your own servers, which get pushes as requests in a form that you define."),
        .duration(
            "invite-ttl-margin", in: .zero ... .seconds(60), \.payload.inviteMargin,
            "The push for a call expires this long before the end of `call.ring-timeout` (`time_to_live`)."),
        .duration(
            "missed-calls-ttl", in: .zero ... .seconds(2_419_200), \.payload.missedCallsTTL,
            "How long the provider keeps a push about missed calls for a device that is offline (`time_to_live`)."),
        .duration(
            "request-timeout", in: .milliseconds(100) ... .seconds(60), \.requestTimeout,
            "The time limit for a provider's answer to one request."),
        .value(
            "source-address", \.sourceAddress, .address, example: "192.0.2.20",
            "The source address of pushes, for a firewall or a provider that filters by address. With an IPv4 address here, the daemon reaches providers only over IPv4, and with an IPv6 address only over IPv6. By default, the system chooses the source address."
        ),
        .value(
            "proxy", \.proxy, PushProxy.settingType, example: "\"http://proxy.example.net:3128\"",
            "The HTTP proxy for requests to all providers and their token services. The proxy must allow CONNECT to the providers. The proxy, not the daemon, resolves the host names of the providers. The URL may contain user and password: http://user:password@host:port, with special characters as %XX. The setting `proxy` of one provider takes precedence over `push.proxy`. Webhooks to application servers use no proxy. By default, the daemon uses no proxy; it ignores environment variables such as `https_proxy`."
        ).taken(.atOnce),
        .bool(
            "try-credentials", \.triesCredentials,
            "Try the credentials of each app at the start and at SIGHUP, with a request that reaches no phone. `sippushd provider list` shows the result, and each failure leaves a log line. The daemon starts without waiting for the results of these trials."
        ).taken(.atOnce),
        .group(
            "timeline", \.timeline,
            "The timeline: the steps of each call and phone, which `sippushd explain` shows. The daemon keeps the timeline in the store."
        ),
        .group(
            "texts", \.payload.texts,
            "Texts in pushes, which phones show to their users. Only pushes in the payload formats `10d` and `linphone` contain these texts."
        ),
    ]

    package func complaints() -> [SettingComplaint] {
        guard webPush.enabled, webPush.hasChosenHosts, webPush.proxy == nil, proxy != nil else { return [] }
        return [SettingComplaint(WebPushSettings.proxyComplaint, key: "proxy")]
    }

    package var services: [any PushServiceSettings] { [apns, fcm, webPush, acrobits, ruStore, hms, http] }

    /// The push service whose tokens have the given provider.
    package func service(of provider: PushProvider) -> (any PushServiceSettings)? {
        services.first { type(of: $0).providers.contains(provider) }
    }

    /// The push providers that the settings enable, so that devices can register with them.
    package var enabledProviders: Set<PushProvider> {
        Set(services.filter(\.enabled).flatMap { type(of: $0).providers })
    }

    /// The providers for devices on the given platform.
    package static func providers(on platform: PushPlatform) -> Set<PushProvider> {
        Set(
            PushSettings().services.filter { type(of: $0).platforms.contains(platform) }.flatMap {
                type(of: $0).providers
            })
    }
}

extension SettingType<IPAddress> {
    /// The type of the setting for the source address of pushes.
    package static let address = SettingType<IPAddress>.parsed("address") { text throws(SettingComplaint) in
        guard let address = IPAddress(text), !address.isUnspecified else {
            throw SettingComplaint("expected an address of this machine")
        }
        return address
    } print: {
        $0.description
    }
}

/// The limits on requests to one push provider.
package struct ProviderLimits: SettingsGroup, Hashable {
    package var requests = 1000
    package var queue = 20_000

    package init() {}

    package static let schema: [Setting<ProviderLimits>] = [
        .integer(
            "requests", in: 1...100_000, \.requests,
            "The maximum number of requests that wait for the server's answer at the same time."),
        .integer(
            "queue", in: 0...10_000_000, \.queue,
            "The maximum number of pushes that wait in the queue until the daemon can send them. When the queue of pushes is full, a further push fails."
        ),
    ]
}

extension BucketSettings: SettingsGroup {
    package static let schema: [Setting<BucketSettings>] = [
        .integer(
            "max-entries", in: 1...10_000, \.maximumEntries,
            "The maximum number of missed calls for one device. If a device has more missed calls, the daemon deletes the oldest missed call of the most frequent caller."
        ),
        .duration(
            "max-age", in: .seconds(60) ... .seconds(31_536_000), \.maximumAge,
            "How long the daemon stores a missed call for a device that does not register."),
    ]
}
