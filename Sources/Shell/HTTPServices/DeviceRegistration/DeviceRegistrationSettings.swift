package import Addressing
import ProxyCore
import ProxyPolicy
import PushDelivery
package import Settings

/// The encoding of a webhook's signature.
package enum SignatureEncoding: String, Hashable, Sendable, CaseIterable {
    case base64
    case hex
}

/// The settings that all apps with device registration share.
package struct DeviceRegistrationSettings: SettingsGroup, Equatable {
    package var historyAge: Duration = .seconds(7 * 86_400)
    package var signature = SignatureEncoding.base64
    package var privateReceivers: [AddressBlock] = []
    package var allowsPlainWebhooks = false
    package var webhookAuthorityFile: String?
    package var webhookSource: IPAddress?

    package init() {}

    package static let schema: [Setting<DeviceRegistrationSettings>] = [
        .duration(
            "history", in: .seconds(60) ... .seconds(3650 * 86_400), \.historyAge,
            "How long the store keeps the outcome of a device registration whose client asked for tracking."),
        .choice("webhook-signature", \.signature, "The encoding of the signature in webhooks: base64 or hex."),
        .list(
            "webhook-receivers", of: .addressBlock, \.privateReceivers, example: "[10.1.2.0/24]",
            "Private addresses to which the daemon may send webhooks, besides all public addresses. Webhooks to the daemon's own listeners are never allowed. Webhooks use no proxy, even if `push.proxy` is set."
        ),
        .bool("webhook-plain-http", \.allowsPlainWebhooks, "Allow callback URLs with http instead of https."),
        .path(
            "webhook-ca-file", \.webhookAuthorityFile, example: "/etc/sippushd/webhook-ca.pem",
            "The certificate authorities (PEM) that the daemon trusts when it sends webhooks. By default, the daemon trusts the system's authorities."
        ),
        .value(
            "webhook-source-address", \.webhookSource, .address, example: "192.0.2.20",
            "The source address of webhooks. With an IPv4 address here, the daemon reaches receivers only over IPv4, and with an IPv6 address only over IPv6. By default, the system chooses the source address."
        ),
    ]
}
