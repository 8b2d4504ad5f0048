import Crypto
import HTTPClient
import JSON
import PushDelivery
import Reactor
import Telemetry
import Timekeeping

/// The access token of one of Google's service accounts, asked for ahead of its end.
final class GoogleCredential {
    struct Key: Hashable {
        let accountFile: String
        let tokenEndpoint: String?
        let authorityFile: String?

        /// `nil` for the old interface, which has a fixed key.
        init?(_ settings: FCMSettings) {
            guard settings.bodyFormat == .v1, let file = settings.serviceAccountFile else { return nil }
            accountFile = file
            tokenEndpoint = settings.tokenEndpoint
            authorityFile = settings.caFile
        }
    }

    /// Why there is no token; `nil` once there is one.
    private(set) var problem: String?
    /// A token that pushes wait for is there, or will not come.
    var changed: () -> Void = {}

    private let key: Key
    private let account: ServiceAccount
    private let http: HTTPSession
    private let loop: EventLoop
    private let timeout: Duration
    private let log: Log
    private var cache = CredentialCache(renewedBeforeEnd: .seconds(300))
    private var timer: LoopTimer?

    /// Before Google is asked again: after it refused us, and after it was not reached.
    private static let refusedPause: Duration = .seconds(60)
    private static let unreachedPause: Duration = .seconds(2)

    init(_ key: Key, _ account: ServiceAccount, http: HTTPSession, timeout: Duration, log: Log) {
        self.key = key
        self.account = account
        self.http = http
        self.timeout = timeout
        self.log = log
        loop = http.loop
    }

    /// Asks for a token now, and from now on ahead of each one's end, so that no call waits for it.
    func keepReady() throws(SystemError) {
        timer = try LoopTimer(on: loop) { [weak self] in
            _ = self?.wanted()
            self?.armTimer()
        }
        _ = wanted()
        armTimer()
    }

    private func armTimer() {
        if let renewal = cache.nextRenewal { timer?.arm(at: renewal) } else { timer?.disarm() }
    }

    func wanted() -> ProviderCredentials.Answer {
        switch cache.wanted(now: loop.now) {
        case .use(let value): return .ready(ProviderCredentials.header(value))
        case .useAndMake(let value):
            _ = ask()
            return .ready(ProviderCredentials.header(value))
        case .make: return ask().map { .none($0) } ?? .later
        case .wait: return .later
        case .giveUp(let outcome): return .none(outcome)
        }
    }

    func refused(_ value: String) { cache.refused(value, now: loop.now) }

    /// Sends a grant request; gives the reason when it cannot even be made.
    private func ask() -> PushOutcome? {
        let now = loop.moment
        do throws(CryptoError) {
            var request = try account.grantRequest(
                endpoint: key.tokenEndpoint, authorityFile: key.authorityFile, now: now.date)
            request.timeout = timeout
            let url = request.url
            http.send(request) { [weak self] in self?.granted($0, by: url) }
            return nil
        } catch {
            let outcome = PushOutcome.credentialsRefused(error.description)
            cache.failed(outcome, pause: Self.refusedPause, now: now.instant)
            return outcome
        }
    }

    private func granted(_ result: Result<HTTPClientResponse, HTTPClientError>, by url: String) {
        let server = HTTPClientError.server(of: url)
        switch result {
        case .success(let response) where response.status == 200:
            guard let grant = ServiceAccount.grant(response.body) else {
                return weAreRefused("the token service \(server) gives no access_token")
            }
            problem = nil
            cache.made("Bearer \(grant.accessToken)", life: grant.life, now: loop.now)
            armTimer()
            changed()
        case .success(let response) where response.status == 429 || response.status >= 500:
            failed(
                .retry(after: nil), "the token service \(server) answers \(response.status)",
                pause: Self.unreachedPause)
        case .success(let response):
            let answer = try? JSONValue(response.body)
            let reason = answer?["error_description"]?.string ?? answer?["error"]?.string ?? "status \(response.status)"
            weAreRefused("the token service \(server) says: \(reason.prefix(200))")
        case .failure(let error):
            let words = "the token service \(error.sentence(about: url))"
            failed(error.pushOutcome(words), words, pause: Self.unreachedPause)
        }
    }

    private func weAreRefused(_ words: String) { failed(.credentialsRefused(words), words, pause: Self.refusedPause) }

    private func failed(_ outcome: PushOutcome, _ words: String, pause: Duration) {
        problem = words
        log.error(
            "no access token from Google",
            [.provider: "fcm", .path: .text(key.accountFile), .reason: .text(words)])
        cache.failed(outcome, pause: pause, now: loop.now)
        armTimer()
        changed()
    }
}
