import Crypto
import Foundation
import HTTPClient
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

/// What a request to a provider must carry.
struct ProviderCredential {
    var header: HTTPHeader?
    var certificateFile: String?
    var keyFile: String?
}

/// Why there is no credential.
struct CredentialFailure: Error {
    let outcome: PushOutcome
}

/// The credentials of each provider, kept and renewed: the APNs token (ES256), Google's access token (JWT bearer grant),
/// the legacy server key.
///
/// Lives on its shard's loop.
final class ProviderCredentials {
    typealias Receiver = (Result<ProviderCredential, CredentialFailure>) -> Void

    private let settings: PushSettings
    private let http: HTTPSession
    private let log: Log
    private let apnsKey: ProviderKey?
    private let account: ServiceAccount?
    private var apnsToken: (header: HTTPHeader, made: UnixTime)?
    private var accessToken: (header: HTTPHeader, until: UnixTime)?
    private var waitingForAccess: [Receiver] = []
    /// After a refusal nobody asks again before this.
    private var accessRetry: (at: UnixTime, outcome: PushOutcome)?

    /// Apple wants a token reused for 20 to 60 minutes.
    private static let apnsTokenLife: Duration = .seconds(40 * 60)
    /// Google's token is renewed that long before its end.
    private static let accessMargin: Duration = .seconds(300)

    init(settings: PushSettings, http: HTTPSession, log: Log) throws(PushSetupError) {
        self.settings = settings
        self.http = http
        self.log = log
        if settings.apns.enabled, let file = settings.apns.keyFile {
            apnsKey = try Self.key(file, .es256)
        } else {
            apnsKey = nil
        }
        if settings.fcm.enabled, settings.fcm.bodyFormat == .v1 {
            guard let file = settings.fcm.serviceAccountFile else {
                throw PushSetupError("push.fcm: service-account-file is needed for body-format v1")
            }
            account = try ServiceAccount(file: file)
        } else {
            account = nil
        }
    }

    /// The project of the service-account file.
    var projectID: String? { account?.projectID }

    func withCredential(for provider: PushProvider, _ receive: @escaping Receiver) {
        switch provider {
        case .apns, .apnsDevelopment: receive(apnsCredential())
        case .fcm:
            guard account != nil else {
                let header = settings.fcm.serverKey.map { HTTPHeader("authorization", "key=\($0.reveal())") }
                return receive(.success(ProviderCredential(header: header)))
            }
            accessCredential(receive)
        }
    }

    /// The provider says that the present one is no good any more.
    func renew(_ provider: PushProvider) {
        switch provider {
        case .apns, .apnsDevelopment: apnsToken = nil
        case .fcm: accessToken = nil
        }
    }

    // MARK: APNs

    private func apnsCredential() -> Result<ProviderCredential, CredentialFailure> {
        let now = SystemClock.moment.date
        guard let apnsKey else {
            return .success(
                ProviderCredential(certificateFile: settings.apns.certFile, keyFile: settings.apns.certKeyFile))
        }
        if let apnsToken, now - apnsToken.made < Self.apnsTokenLife {
            return .success(ProviderCredential(header: apnsToken.header))
        }
        do {
            let token = try apnsKey.token(
                header: Array("{\"alg\":\"ES256\",\"kid\":\"\(settings.apns.keyID ?? "")\"}".utf8),
                claims: Array("{\"iss\":\"\(settings.apns.teamID ?? "")\",\"iat\":\(now.seconds)}".utf8))
            let header = HTTPHeader("authorization", "bearer \(String(decoding: token, as: UTF8.self))")
            apnsToken = (header, now)
            return .success(ProviderCredential(header: header))
        } catch {
            return .failure(CredentialFailure(outcome: .credentialsRefused("\(error)")))
        }
    }

    // MARK: Google

    private func accessCredential(_ receive: @escaping Receiver) {
        let now = SystemClock.moment.date
        if let accessToken, now + Self.accessMargin < accessToken.until {
            return receive(.success(ProviderCredential(header: accessToken.header)))
        }
        if let accessRetry, now < accessRetry.at { return receive(.failure(CredentialFailure(outcome: accessRetry.outcome))) }
        // One request serves all who wait.
        waitingForAccess.append(receive)
        guard waitingForAccess.count == 1, let account else { return }
        do {
            let request = try account.grantRequest(
                now: now, endpoint: settings.fcm.tokenEndpoint, authorityFile: settings.fcm.caFile)
            _ = http.send(request) { [weak self] result in self?.granted(result) }
        } catch {
            answer(.failure(CredentialFailure(outcome: .credentialsRefused("\(error)"))))
        }
    }

    private func granted(_ result: Result<HTTPClientResponse, HTTPClientError>) {
        let now = SystemClock.moment.date
        switch result {
        case .success(let response) where response.status == 200:
            guard let grant = try? JSONDecoder().decode(ServiceAccount.Grant.self, from: Data(response.body)) else {
                return refused(.credentialsRefused("the token service's answer cannot be read"), now)
            }
            let header = HTTPHeader("authorization", "Bearer \(grant.accessToken)")
            accessToken = (header, now + .seconds(grant.expiresIn ?? 3600))
            accessRetry = nil
            answer(.success(ProviderCredential(header: header)))
        case .success(let response) where response.status >= 500: refused(.retry(after: nil), now, for: .seconds(1))
        case .success(let response):
            refused(.credentialsRefused("the token service answers \(response.status)"), now)
        case .failure(let error):
            refused(error.isRetriable ? .retry(after: nil) : .credentialsRefused("\(error)"), now, for: .seconds(1))
        }
    }

    private func refused(_ outcome: PushOutcome, _ now: UnixTime, for pause: Duration = .seconds(60)) {
        log.error("no access token", [.provider: "fcm", .outcome: .text("\(outcome)")])
        accessRetry = (now + pause, outcome)
        answer(.failure(CredentialFailure(outcome: outcome)))
    }

    private func answer(_ result: Result<ProviderCredential, CredentialFailure>) {
        let receivers = waitingForAccess
        waitingForAccess = []
        for receive in receivers { receive(result) }
    }

    static func key(_ file: String, _ algorithm: ProviderKey.Algorithm) throws(PushSetupError) -> ProviderKey {
        do {
            return try ProviderKey(.file(file), for: algorithm)
        } catch {
            throw PushSetupError("\(file): \(error)")
        }
    }
}
