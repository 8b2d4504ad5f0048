import Crypto
import JSON
import PushDelivery
import Timekeeping

/// Signs authentication tokens for Apple with one key. All apps with one Apple key share each token.
struct AppleTokenSigner {
    struct Key: Hashable {
        let teamID: String
        let keyID: String
        let file: String

        /// Creates the signer of an app; `nil` for an app that uses a certificate instead of a key.
        init?(_ settings: APNsSettings) {
            guard let file = settings.keyFile else { return nil }
            self.file = file
            teamID = settings.teamID ?? ""
            keyID = settings.keyID ?? ""
        }
    }

    private let key: Key
    /// The contents of the file with Apple's signing key.
    private let content: PEM
    private let signer: ProviderKey

    /// Identifies the signer: two signers with equal identities make the same tokens.
    var identity: AnyHashable { AnyHashable([AnyHashable(key), AnyHashable(content)]) }

    init(_ key: Key) throws(PushSetupError) {
        self.key = key
        do throws(CryptoError) {
            content = PEM.content(of: key.file)
            signer = try ProviderKey(content, for: .es256)
        } catch {
            throw PushSetupError("apns key-file \(key.file): \(error)")
        }
    }

    /// Returns the value of the header field `authorization`.
    func credential(at date: UnixTime) throws(CryptoError) -> String {
        var header = Array("{\"alg\":\"ES256\",\"kid\":".utf8)
        header.append(jsonString: key.keyID)
        header += Array("}".utf8)
        var claims = Array("{\"iss\":".utf8)
        claims.append(jsonString: key.teamID)
        claims += Array(",\"iat\":\(date.seconds)}".utf8)
        return "bearer " + String(decoding: try signer.token(header: header, claims: claims), as: UTF8.self)
    }
}

extension APNsApp: CredentialedApp {
    func credential(_ makers: inout CredentialMakers) throws(PushSetupError) -> PushCredentials.Source {
        guard let key = AppleTokenSigner.Key(settings) else { return .none }
        let signer = try AppleTokenSigner(key)
        return try makers.made(for: signer.identity) { () throws(PushSetupError) in
            .signer(.apple) { (_, date) throws(CryptoError) in try signer.credential(at: date) }
        }
    }
}
