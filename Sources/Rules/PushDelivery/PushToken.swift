package import Bytes

/// A push provider, named by `pn-provider` (RFC 8599 section 14, reading A3).
package enum PushProvider: String, Hashable, Sendable, CaseIterable {
    case apns
    /// Linphone's spelling of the name of Apple's sandbox environment.
    case apnsDevelopment = "apns.dev"
    case fcm
    /// Web push to browsers and apps (RFC 8030); the token is the URL of a web push subscription.
    case webPush = "webpush"
    /// Acrobits' push server, which sends pushes to Apple and Google for Acrobits' apps.
    case acrobits
    /// The operator's own push server, which gets HTTP requests. The `pn-param` of a token for the operator's own push
    /// server is the app's name in the settings.
    case http
    /// The push service of RuStore, an app store for Android; `pn-param` is the project's id.
    case ruStore = "rustore"
    /// Huawei's Push Kit, for Android phones with HMS Core. `pn-param` is the app's id.
    case hms

    /// Parses a value of `pn-provider`, in upper or lower case, or an alias that real clients send; `nil` for an
    /// unknown provider.
    package init?(_ value: ByteString) {
        switch value.string.lowercased() {
        case "apns", "apple": self = .apns
        case "apns.dev": self = .apnsDevelopment
        case "fcm", "firebase", "android", "google": self = .fcm
        case "webpush": self = .webPush
        case "acrobits": self = .acrobits
        case "http": self = .http
        case "rustore": self = .ruStore
        case "hms", "huawei": self = .hms
        default: return nil
        }
    }

    /// The number of the provider in tables in memory; the number is never stored or sent.
    package var number: UInt8 {
        switch self {
        case .apns: 1
        case .apnsDevelopment: 2
        case .fcm: 3
        case .webPush: 4
        case .acrobits: 5
        case .http: 6
        case .ruStore: 7
        case .hms: 8
        }
    }

    package init?(number: UInt8) {
        switch number {
        case 1: self = .apns
        case 2: self = .apnsDevelopment
        case 3: self = .fcm
        case 4: self = .webPush
        case 5: self = .acrobits
        case 6: self = .http
        case 7: self = .ruStore
        case 8: self = .hms
        default: return nil
        }
    }

    /// Hashes the provider's number, because the compiler's own function would hash the provider's name.
    package func hash(into hasher: inout Hasher) { hasher.combine(number) }
}

/// The three push parameters of RFC 8599; together they address one installation of an app at a push provider. Push
/// parameters are compared after percent-decoding.
///
/// The push token is secret, because everybody who has it can wake the phone; ``description`` does not reveal the
/// token.
package struct PushToken: Hashable, Sendable, CustomStringConvertible {
    package let provider: PushProvider
    /// The percent-decoded value of `pn-param`, or of ECSS-10's `pn-params`; empty if the device sent neither.
    package let param: ByteString
    /// The percent-decoded value of `pn-prid`; it is never empty. For APNs, `pn-prid` can have several pairs
    /// `token:service`, joined by `&`.
    package let prid: ByteString

    package init(provider: PushProvider, param: ByteString, prid: ByteString) {
        self.provider = provider
        self.param = param
        self.prid = prid
    }

    /// The provider, the token's length and, of a long token, the first four characters.
    package var description: String {
        "\(provider.rawValue):\(prid.count >= 16 ? prid.string.prefix(4) : "")…(\(prid.count))"
    }
}
