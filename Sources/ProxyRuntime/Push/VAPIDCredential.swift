import Crypto
import HTTPClient
import JSON
import PushDelivery
import Reactor
import Timekeeping

/// What shows web push services who sends (RFC 8292): a signed token for each of them, kept for hours.
final class VAPIDCredential {
    /// The key's point in base64url, as apps subscribe for it.
    let publicKey: String

    private let signer: ProviderKey
    private let contact: String
    private let loop: EventLoop
    private var tokens: [String: Token] = [:]

    private struct Token {
        let header: HTTPHeader
        let made: UnixTime
        let end: Instant
    }

    private static let life: Duration = .seconds(12 * 3600)
    /// How much longer services may accept it, for clocks that differ; both together less than a day.
    private static let margin: Duration = .seconds(3600)
    private static let limit = 256

    init(_ settings: WebPushSettings, loop: EventLoop) throws(PushSetupError) {
        guard let file = settings.keyFile, let contact = settings.contact else {
            throw PushSetupError("webpush: vapid-key-file and vapid-contact are needed")
        }
        self.contact = contact
        self.loop = loop
        do throws(CryptoError) {
            signer = try ProviderKey(.file(file), for: .es256)
            publicKey = String(decoding: Base64.url.encode(try signer.publicPoint()), as: UTF8.self)
        } catch {
            throw PushSetupError("webpush vapid-key-file \(file): \(error)")
        }
    }

    /// For requests to that origin.
    func wanted(for origin: String) -> ProviderCredentials.Answer {
        let now = loop.moment
        // Services judge by their clocks: ours may have been set since.
        if let token = tokens[origin], now.instant < token.end,
            (Duration.zero...Self.life).contains(now.date - token.made)
        {
            return .ready(token.header)
        }
        do throws(CryptoError) {
            let header = ProviderCredentials.header(try sign(origin, now.date))
            if tokens.count >= Self.limit { tokens = [:] }
            tokens[origin] = Token(header: header, made: now.date, end: now.instant + Self.life)
            return .ready(header)
        } catch {
            return .none(.credentialsRefused(error.description))
        }
    }

    private func sign(_ origin: String, _ date: UnixTime) throws(CryptoError) -> String {
        let header = Array(#"{"typ":"JWT","alg":"ES256"}"#.utf8)
        var claims = Array("{\"aud\":".utf8)
        claims.append(jsonString: origin)
        claims += Array(",\"exp\":\((date + Self.life + Self.margin).seconds),\"sub\":".utf8)
        claims.append(jsonString: contact)
        claims += Array("}".utf8)
        let token = String(decoding: try signer.token(header: header, claims: claims), as: UTF8.self)
        return "vapid t=\(token), k=\(publicKey)"
    }
}
