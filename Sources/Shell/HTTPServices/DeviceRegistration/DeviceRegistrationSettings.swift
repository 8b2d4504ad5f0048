package import Addressing
import ProxyCore
import PushDelivery
package import Settings

/// How a webhook's signature is written.
package enum SignatureEncoding: String, Hashable, Sendable, CaseIterable {
    case base64
    case hex
}

/// What is common to all apps that register devices over HTTP.
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
            "How long the outcome of a tracked request can be asked for."),
        .choice("webhook-signature", \.signature, "How webhooks write their signature: base64 or hex."),
        .list(
            "webhook-receivers", of: .addressBlock, \.privateReceivers, example: "[10.1.2.0/24]",
            "Private addresses that webhooks may go to; all public ones are allowed. Never our own listeners."),
        .bool("webhook-plain-http", \.allowsPlainWebhooks, "Whether callback URLs may be http."),
        .path(
            "webhook-ca-file", \.webhookAuthorityFile, example: "/etc/sippushd/webhook-ca.pem",
            "Certificate authorities for webhook receivers, PEM, in place of the system's."),
        .value(
            "webhook-source-address", \.webhookSource, .address, example: "192.0.2.20",
            "The address of this machine that webhooks leave from. Receivers are then reached over its family alone. Without it the system chooses."
        ),
    ]
}
