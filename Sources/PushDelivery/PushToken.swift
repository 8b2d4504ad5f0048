package import Bytes

/// A push service as `pn-provider` names it (RFC 8599 section 14, reading A3).
package enum PushProvider: String, Hashable, Sendable, CaseIterable {
    case apns
    /// Apple's sandbox environment, as Linphone spells it.
    case apnsDevelopment = "apns.dev"
    case fcm
    /// A subscription of RFC 8030: its URL is the token.
    case webPush = "webpush"
    /// Acrobits' mediator.
    case acrobits
    /// A server of the operator's own; `pn-param` names the app in the settings.
    case http

    /// Reads a `pn-provider` value: case-insensitive, with the aliases real clients send; `nil` for an unknown one.
    package init?(_ value: ByteString) {
        switch value.string.lowercased() {
        case "apns", "apple": self = .apns
        case "apns.dev": self = .apnsDevelopment
        case "fcm", "firebase", "android", "google": self = .fcm
        case "webpush": self = .webPush
        case "acrobits": self = .acrobits
        case "http": self = .http
        default: return nil
        }
    }
}

/// The RFC 8599 triple that lets a provider reach one app installation; compared as decoded bytes.
///
/// A secret: whoever has it can wake the phone. Its description is redacted.
package struct PushToken: Hashable, Sendable, CustomStringConvertible {
    package let provider: PushProvider
    /// `pn-param` (or ECSS `pn-params`), percent-decoded; empty when the device sent none.
    package let param: ByteString
    /// `pn-prid`, percent-decoded; never empty. For APNs it may hold several `token:service` joined by `&`.
    package let prid: ByteString

    package init(provider: PushProvider, param: ByteString, prid: ByteString) {
        self.provider = provider
        self.param = param
        self.prid = prid
    }

    /// Provider, length, and of a long token the first four characters.
    package var description: String {
        "\(provider.rawValue):\(prid.count >= 16 ? prid.string.prefix(4) : "")…(\(prid.count))"
    }
}
