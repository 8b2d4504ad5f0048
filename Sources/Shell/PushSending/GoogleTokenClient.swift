import Crypto
import HTTPClient
import JSON
import PushDelivery
import Settings
import Telemetry
import Timekeeping

/// Requests access tokens for one service account from Google's token service.
struct GoogleTokenClient {
    struct Key: Hashable {
        let accountFile: String
        /// The contents of the file with the Google service account.
        let account: [UInt8]
        let tokenEndpoint: String?
        let connection: AppConnection?

        /// Creates the key; `nil` for FCM's legacy interface, which needs no access tokens.
        init?(_ settings: FCMSettings, _ makers: CredentialMakers) {
            guard settings.bodyFormat == .v1, let file = settings.serviceAccountFile,
                let account = makers.accounts[file]
            else { return nil }
            self.account = account.content
            connection = makers.connection
            accountFile = file
            tokenEndpoint = settings.tokenEndpoint
        }
    }

    enum Answer {
        /// The value of the header field `authorization`, and its lifetime.
        case credential(String, life: Duration)
        /// Why no token was received: the outcome for pushes, and a sentence for the operator.
        case failure(PushOutcome, String)
    }

    private let key: Key
    private let account: ServiceAccount
    private let timeout: Duration
    private let log: Log

    init(_ key: Key, _ account: ServiceAccount, timeout: Duration, log: Log) {
        self.key = key
        self.account = account
        self.timeout = timeout
        self.log = log
    }

    /// Requests an access token as a trial of the service account; no push is sent, and no log line is written. The
    /// closure `done` gets the token or the reason for the failure, and the lead of this machine's clock. The loop
    /// calls `done` once, later.
    func tryAsking(
        over http: HTTPSession, at date: UnixTime,
        _ done: @escaping (String?, TrialVerdict?, Int64?) -> Void
    ) throws(CryptoError) {
        let request = try request(at: date)
        let url = request.url
        http.send(request) { result in
            let lead = (try? result.get()).flatMap {
                ProviderAnswer.clockLead(over: $0.header("date"), now: date)
            }
            switch (Self.answer(result, of: url, now: date), result) {
            case (.credential(let value, _), _): done(value, nil, lead)
            case (.failure(_, let words), .failure(let error)):
                done(nil, .failed(words, cure: TrialCure.of(error, at: url)), nil)
            case (.failure(.retry, let words), _):
                done(nil, .failed(words, cure: "Look at the status page of Google, and try again later."), lead)
            case (.failure(_, let words), _): done(nil, .refused(words, cure: Self.cure), lead)
            }
        }
    }

    private static let cure =
        "Google does not take the service account: was its key deleted in the console? A wrong clock has the same effect: timedatectl."

    private func request(at date: UnixTime) throws(CryptoError) -> HTTPClientRequest {
        var request = try account.grantRequest(
            endpoint: key.tokenEndpoint, route: key.connection?.route(group: "oauth"), now: date)
        request.timeout = timeout
        return request
    }

    /// Requests an access token. The event loop calls `done` once, later.
    func ask(over http: HTTPSession, at date: UnixTime, _ done: @escaping (Answer) -> Void) throws(CryptoError) {
        let request = try request(at: date)
        let url = request.url
        http.send(request) { result in
            let answer = Self.answer(result, of: url, now: date)
            if case .failure(_, let words) = answer {
                log.error(
                    "Google issued no access token for the service account",
                    [.provider: "fcm", .path: .text(key.accountFile), .reason: .text(words)])
            }
            done(answer)
        }
    }

    private static func answer(
        _ result: Result<HTTPClientResponse, HTTPClientError>, of url: String, now: UnixTime
    ) -> Answer {
        let server = "the token service \(HTTPClientError.server(of: url))"
        switch result {
        case .success(let response) where response.status == 200:
            guard let grant = ServiceAccount.grant(response.body) else {
                return refusal("\(server) returned no access_token")
            }
            return .credential("Bearer \(grant.accessToken)", life: grant.life)
        case .success(let response) where response.status == 429 || response.status >= 500:
            return .failure(.retry(after: nil), "\(server) answers \(response.status)")
        case .success(let response):
            let answer = try? JSONValue(response.body)
            let reason = answer?["error_description"]?.string ?? answer?["error"]?.string ?? "status \(response.status)"
            // Google refuses wrong times in a request without naming the clock, so the daemon adds the clock as the
            // reason.
            let clock = ProviderAnswer(response).clockFault(now: now).map { ": \($0)" } ?? ""
            return refusal("\(server) says: \(reason.prefix(200))\(clock)")
        case .failure(let error):
            let words = "the token service \(error.sentence(about: url))"
            return .failure(error.pushOutcome(words), words)
        }
    }

    private static func refusal(_ words: String) -> Answer { .failure(.credentialsRefused(words), words) }
}

extension FCMApp: CredentialedApp {
    func credential(_ makers: inout CredentialMakers) throws(PushSetupError) -> PushCredentials.Source {
        guard let key = GoogleTokenClient.Key(settings, makers),
            let account = makers.accounts[key.accountFile]
        else {
            return settings.serverKey.map { .fixed("key=" + $0.reveal()) } ?? .none
        }
        let client = GoogleTokenClient(
            key, account, timeout: makers.requestTimeout, log: makers.log)
        return try makers.made(for: key) { () throws(PushSetupError) in .google(client) }
    }
}
