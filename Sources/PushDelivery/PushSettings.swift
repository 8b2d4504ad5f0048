package import Addressing
package import Settings

/// The push providers, and what their messages have in common.
package struct PushSettings: SettingsGroup, Equatable {
    package var apns = APNsSettings()
    package var fcm = FCMSettings()
    package var webPush = WebPushSettings()
    package var acrobits = AcrobitsSettings()
    package var http = HTTPPushSettings()
    package var payload = PayloadSettings()
    package var requestTimeout: Duration = .seconds(5)
    package var timeline = TimelineSettings()
    package var sourceAddress: IPAddress?

    package init() {}

    package static let schema: [Setting<PushSettings>] = [
        .group("apns", \.apns, "Apple Push Notification service."),
        .group("fcm", \.fcm, "Firebase Cloud Messaging."),
        .group("webpush", \.webPush, "Web push: browsers and apps with a subscription of their own (RFC 8030)."),
        .group("acrobits", \.acrobits, "The mediator of Acrobits, which pushes for apps made with its tools."),
        .group("http", \.http, "Servers of your own, which are told of pushes in a form that you choose."),
        .duration(
            "invite-ttl-margin", in: .zero ... .seconds(60), \.payload.inviteMargin,
            "Subtracted from the rest of the ring timeout to give time_to_live of an incoming-call push."),
        .duration(
            "missed-calls-ttl", in: .zero ... .seconds(2_419_200), \.payload.missedCallsTTL,
            "How long Apple keeps a missed-calls push for a device that is away, and the time_to_live written in it."),
        .duration(
            "request-timeout", in: .milliseconds(100) ... .seconds(60), \.requestTimeout,
            "How long a provider may take to answer one request."),
        .value(
            "source-address", \.sourceAddress, .address, example: "192.0.2.20",
            "The address of this machine that pushes leave from, for a firewall or a provider that knows us by it. Providers are then reached over its family alone. Without it the system chooses."
        ),
        .group(
            "timeline", \.timeline,
            "What was done for each phone and call, which `sippushd explain` tells: kept in the store."),
        .group("texts", \.payload.texts, "Words that phones show, in payloads that carry any (10d, linphone)."),
    ]

    /// All services.
    package var services: [any PushServiceSettings] { [apns, fcm, webPush, acrobits, http] }

    /// The service that tokens of this provider are for.
    package func service(of provider: PushProvider) -> (any PushServiceSettings)? {
        services.first { type(of: $0).providers.contains(provider) }
    }

    /// The providers that devices may register with now.
    package var enabledProviders: Set<PushProvider> {
        Set(services.filter(\.enabled).flatMap { type(of: $0).providers })
    }

    /// The providers of that platform's devices.
    package static func providers(on platform: PushPlatform) -> Set<PushProvider> {
        Set(
            PushSettings().services.filter { type(of: $0).platforms.contains(platform) }.flatMap {
                type(of: $0).providers
            })
    }
}

extension SettingType<IPAddress> {
    /// An address that something can leave from.
    package static let address = SettingType<IPAddress>.parsed("address") { text throws(SettingComplaint) in
        guard let address = IPAddress(text), !address.isUnspecified else {
            throw SettingComplaint("expected an address of this machine")
        }
        return address
    } print: {
        $0.description
    }
}

/// How much is sent to one provider at a time. Other providers are not affected.
package struct PushLimits: SettingsGroup, Hashable {
    package var requests = 1000
    package var queue = 20_000

    package init() {}

    package static let schema: [Setting<PushLimits>] = [
        .integer("requests", in: 1...100_000, \.requests, "Requests under way."),
        .integer("queue", in: 0...10_000_000, \.queue, "Pushes that wait for their turn; more are refused."),
    ]
}

extension BucketSettings: SettingsGroup {
    package static let schema: [Setting<BucketSettings>] = [
        .integer(
            "max-entries", in: 1...10_000, \.maximumEntries,
            "Calls kept for one device; beyond it the oldest goes of the caller who has most of them."),
        .duration(
            "max-age", in: .seconds(60) ... .seconds(31_536_000), \.maximumAge,
            "How long a missed call is kept for a device that does not return."),
    ]
}
