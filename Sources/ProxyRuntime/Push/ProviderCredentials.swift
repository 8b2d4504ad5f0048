import Crypto
import HTTPClient
import JSON
import PushDelivery
import Reactor
import Settings
import Telemetry
import Timekeeping

/// Why the push side cannot start: a sentence for the operator.
package struct PushSetupError: Error, CustomStringConvertible {
    package let description: String
    package init(_ sentence: String) { description = sentence }
}

/// What requests to the providers must carry: Apple's signed token, Google's access token, or the old server key.
///
/// Lives on its shard's loop.
final class ProviderCredentials {
    enum Answer {
        /// The value of `authorization`; `nil` where a certificate or nothing stands for it.
        case ready(HTTPHeader?)
        /// ``changed`` will tell.
        case later
        case none(PushOutcome)
    }

    /// A credential that pushes wait for is there, or will not come; asked again, the answer is another than `later`.
    var changed: () -> Void = {}
    /// The project of the service-account file.
    var projectID: String? { account?.projectID }

    private let settings: PushSettings
    private let http: HTTPSession
    private let loop: EventLoop
    private let log: Log
    private let appleKey: ProviderKey?
    private var apple = CredentialCache(renewedBeforeEnd: .zero)
    private let account: ServiceAccount?
    private var google = CredentialCache(renewedBeforeEnd: .seconds(300))
    private let serverKey: HTTPHeader?

    /// Apple wants a token used for 20 minutes at least and for an hour at most.
    private static let appleTokenLife: Duration = .seconds(40 * 60)
    /// Before Google is asked again: after it refused us, and after it was not reached.
    private static let refusedPause: Duration = .seconds(60)
    private static let unreachedPause: Duration = .seconds(2)

    init(settings: PushSettings, http: HTTPSession, log: Log) throws(PushSetupError) {
        self.settings = settings
        self.http = http
        loop = http.loop
        self.log = log
        if settings.apns.enabled, let file = settings.apns.keyFile {
            do throws(CryptoError) {
                appleKey = try ProviderKey(.file(file), for: .es256)
            } catch {
                throw PushSetupError("apns key-file \(file): \(error)")
            }
        } else {
            appleKey = nil
        }
        if settings.fcm.enabled, settings.fcm.bodyFormat == .v1 {
            guard let file = settings.fcm.serviceAccountFile else {
                throw PushSetupError("fcm: service-account-file is needed for body-format v1")
            }
            account = try ServiceAccount(file: file)
        } else {
            account = nil
        }
        serverKey = settings.fcm.serverKey.map { HTTPHeader("authorization", "key=\($0.reveal())") }
    }

    func credential(for provider: PushProvider) -> Answer {
        switch provider {
        case .apns, .apnsDevelopment: appleKey.map { appleToken($0) } ?? .ready(nil)
        case .fcm: account.map { accessToken($0) } ?? .ready(serverKey)
        }
    }

    /// The provider refused a push that carried this one.
    func refused(_ header: HTTPHeader?, by provider: PushProvider) {
        guard let value = header?.value else { return }
        switch provider {
        case .apns, .apnsDevelopment: apple.refused(value, now: loop.now)
        case .fcm: google.refused(value, now: loop.now)
        }
    }

    // MARK: Apple

    private func appleToken(_ key: ProviderKey) -> Answer {
        switch apple.wanted(now: loop.now) {
        case .use(let value): return .ready(HTTPHeader("authorization", value))
        case .giveUp(let outcome): return .none(outcome)
        // Signing takes no time to speak of, so nobody ever waits.
        case .make, .useAndMake, .wait: break
        }
        let now = loop.moment
        do throws(CryptoError) {
            var header = Array("{\"alg\":\"ES256\",\"kid\":".utf8)
            header.append(jsonString: settings.apns.keyID ?? "")
            header += Array("}".utf8)
            var claims = Array("{\"iss\":".utf8)
            claims.append(jsonString: settings.apns.teamID ?? "")
            claims += Array(",\"iat\":\(now.date.seconds)}".utf8)
            let value = "bearer " + String(decoding: try key.token(header: header, claims: claims), as: UTF8.self)
            apple.made(value, life: Self.appleTokenLife, now: now.instant)
            return .ready(HTTPHeader("authorization", value))
        } catch {
            let outcome = PushOutcome.credentialsRefused(error.description)
            apple.failed(outcome, pause: Self.unreachedPause, now: now.instant)
            return .none(outcome)
        }
    }

    // MARK: Google

    private func accessToken(_ account: ServiceAccount) -> Answer {
        switch google.wanted(now: loop.now) {
        case .use(let value): return .ready(HTTPHeader("authorization", value))
        case .useAndMake(let value):
            _ = ask(account)
            return .ready(HTTPHeader("authorization", value))
        case .make:
            return ask(account).map { .none($0) } ?? .later
        case .wait: return .later
        case .giveUp(let outcome): return .none(outcome)
        }
    }

    /// Sends a grant request; gives the reason when it cannot even be made.
    private func ask(_ account: ServiceAccount) -> PushOutcome? {
        let now = loop.moment
        do throws(CryptoError) {
            var request = try account.grantRequest(
                endpoint: settings.fcm.tokenEndpoint, authorityFile: settings.fcm.caFile, now: now.date)
            request.timeout = settings.requestTimeout
            http.send(request) { [weak self] in self?.granted($0) }
            return nil
        } catch {
            let outcome = PushOutcome.credentialsRefused(error.description)
            google.failed(outcome, pause: Self.refusedPause, now: now.instant)
            return outcome
        }
    }

    private func granted(_ result: Result<HTTPClientResponse, HTTPClientError>) {
        switch result {
        case .success(let response) where response.status == 200:
            guard let grant = ServiceAccount.grant(response.body) else {
                return failed(
                    .credentialsRefused("the token service's answer has no access_token"), pause: Self.refusedPause)
            }
            google.made("Bearer \(grant.accessToken)", life: grant.life, now: loop.now)
            changed()
        case .success(let response) where response.status == 429 || response.status >= 500:
            failed(.retry(after: nil), pause: Self.unreachedPause)
        case .success(let response):
            let answer = try? JSONValue(response.body)
            let reason = answer?["error_description"]?.string ?? answer?["error"]?.string ?? "status \(response.status)"
            failed(.credentialsRefused("the token service says: \(reason.prefix(200))"), pause: Self.refusedPause)
        case .failure(let error):
            failed(
                error.isRetriable ? .retry(after: nil) : .credentialsRefused("the token service: \(error)"),
                pause: Self.unreachedPause)
        }
    }

    private func failed(_ outcome: PushOutcome, pause: Duration) {
        log.error("no access token from Google", [.provider: "fcm", .outcome: .text("\(outcome)")])
        google.failed(outcome, pause: pause, now: loop.now)
        changed()
    }
}
