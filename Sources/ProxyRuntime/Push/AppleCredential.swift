import Crypto
import JSON
import PushDelivery
import Reactor
import Timekeeping

/// The signed token of one of Apple's keys, the same for all apps of its team.
final class AppleCredential {
    struct Key: Hashable {
        let teamID: String
        let keyID: String
        let file: String

        /// `nil` for an app with a certificate.
        init?(_ settings: APNsSettings) {
            guard let file = settings.keyFile else { return nil }
            self.file = file
            teamID = settings.teamID ?? ""
            keyID = settings.keyID ?? ""
        }
    }

    private let key: Key
    private let signer: ProviderKey
    private let loop: EventLoop
    private var cache = CredentialCache(renewedBeforeEnd: .zero)

    /// Apple wants a token used for 20 minutes at least and for an hour at most.
    private static let life: Duration = .seconds(40 * 60)
    private static let pauseAfterFailure: Duration = .seconds(2)

    init(_ key: Key, loop: EventLoop) throws(PushSetupError) {
        self.key = key
        self.loop = loop
        do throws(CryptoError) {
            signer = try ProviderKey(.file(key.file), for: .es256)
        } catch {
            throw PushSetupError("apns key-file \(key.file): \(error)")
        }
    }

    func wanted() -> ProviderCredentials.Answer {
        let now = loop.moment
        switch cache.wanted(now: now.instant) {
        case .use(let value): return .ready(ProviderCredentials.header(value))
        case .giveUp(let outcome): return .none(outcome)
        // Signing takes no time to speak of, so nobody ever waits.
        case .make, .useAndMake, .wait: break
        }
        do throws(CryptoError) {
            let value = try sign(now.date)
            cache.made(value, life: Self.life, now: now.instant)
            return .ready(ProviderCredentials.header(value))
        } catch {
            let outcome = PushOutcome.credentialsRefused(error.description)
            cache.failed(outcome, pause: Self.pauseAfterFailure, now: now.instant)
            return .none(outcome)
        }
    }

    func refused(_ value: String) { cache.refused(value, now: loop.now) }

    private func sign(_ date: UnixTime) throws(CryptoError) -> String {
        var header = Array("{\"alg\":\"ES256\",\"kid\":".utf8)
        header.append(jsonString: key.keyID)
        header += Array("}".utf8)
        var claims = Array("{\"iss\":".utf8)
        claims.append(jsonString: key.teamID)
        claims += Array(",\"iat\":\(date.seconds)}".utf8)
        return "bearer " + String(decoding: try signer.token(header: header, claims: claims), as: UTF8.self)
    }
}
