import Bytes
import Crypto
import JSON
import PushDelivery
import Timekeeping

/// Signs the tokens by which the daemon identifies itself to web push services (RFC 8292), one token for each service.
struct VAPIDTokenSigner {
    /// The public key with which apps create web push subscriptions, in base64url: an uncompressed point.
    let publicKey: String

    private let signer: ProviderKey
    fileprivate let contact: String

    /// How long a token stays valid after the daemon has last used the token, because clocks differ. The token's time
    /// of use and the margin together are shorter than the day that RFC 8292 permits.
    private static let margin: Duration = .seconds(3600)

    init(_ settings: WebPushSettings) throws(PushSetupError) {
        guard let file = settings.keyFile, let contact = settings.contact else {
            throw PushSetupError("webpush: vapid-key-file and vapid-contact are needed")
        }
        self.contact = contact
        do throws(CryptoError) {
            signer = try ProviderKey(PEM.content(of: file), for: .es256)
            publicKey = String(decoding: Base64.url.encode(try signer.publicPoint()), as: UTF8.self)
        } catch {
            throw PushSetupError("webpush vapid-key-file \(file): \(error)")
        }
    }

    /// Returns the value of the header field `authorization` for requests to the server `origin`.
    func credential(for origin: String, at date: UnixTime) throws(CryptoError) -> String {
        let header = Array(#"{"typ":"JWT","alg":"ES256"}"#.utf8)
        let end = date + PushCredentials.webPushLife + Self.margin
        var claims = Array("{\"aud\":".utf8)
        claims.append(jsonString: origin)
        claims += Array(",\"exp\":\(end.seconds),\"sub\":".utf8)
        claims.append(jsonString: contact)
        claims += Array("}".utf8)
        let token = String(decoding: try signer.token(header: header, claims: claims), as: UTF8.self)
        return "vapid t=\(token), k=\(publicKey)"
    }
}

extension WebPushApp: CredentialedApp {
    func credential(_ makers: inout CredentialMakers) throws(PushSetupError) -> PushCredentials.Source {
        try makers.vapidSource(settings, for: "listed")
    }
}

/// The app has tokens of its own, so that servers that phones choose cannot push the tokens for listed servers out of
/// memory.
extension UnifiedPushApp: CredentialedApp {
    func credential(_ makers: inout CredentialMakers) throws(PushSetupError) -> PushCredentials.Source {
        try makers.vapidSource(settings, for: "chosen")
    }
}

extension CredentialMakers {
    fileprivate mutating func vapidSource(
        _ settings: WebPushSettings, for servers: String
    ) throws(PushSetupError) -> PushCredentials.Source {
        let signer = try VAPIDTokenSigner(settings)
        vapidKey = signer.publicKey
        return try made(for: AnyHashable([signer.publicKey, signer.contact, servers])) { () throws(PushSetupError) in
            .signer(.webPush) { (origin, date) throws(CryptoError) in
                try signer.credential(for: origin ?? "", at: date)
            }
        }
    }
}
