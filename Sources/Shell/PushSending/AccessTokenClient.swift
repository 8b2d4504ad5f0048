import Crypto
import HTTPClient
import JSON
import PushDelivery
import Settings
import Telemetry
import Timekeeping

/// Requests access tokens for one app from the token service of its push provider (OAuth 2.0).
struct AccessTokenClient {
    /// The provider's name, and the words about failures of its token service.
    struct Words {
        /// The name of the company whose token service issues the tokens.
        let issuer: String
        /// The secret of the app, which the token service may repeat in its words.
        var secret: Secret?
        /// The advice for an operator whose credentials the token service refuses.
        let cure: String
        /// Writes the log line about a token that was not issued, with the given reason.
        let tellNotIssued: (Log, String) -> Void

        func redacted(_ text: String) -> String {
            guard let secret = secret?.reveal(), !secret.isEmpty else { return text }
            return text.replacing(secret, with: "…")
        }
    }

    enum Answer {
        /// The value of the header field `authorization`, and the time for which the value is valid.
        case credential(String, life: Duration)
        /// The reason why no token was received: the outcome for pushes, and a sentence for the operator.
        case failure(PushOutcome, String)
    }

    private let words: Words
    private let log: Log
    private let timeout: Duration
    /// Makes the request for a token, at the given time.
    private let makeRequest: (UnixTime) throws(CryptoError) -> HTTPClientRequest

    init(
        _ words: Words, timeout: Duration, log: Log,
        request: @escaping (UnixTime) throws(CryptoError) -> HTTPClientRequest
    ) {
        self.words = words
        self.timeout = timeout
        self.log = log
        makeRequest = request
    }

    /// Tests the app's credentials with a request for an access token, without a push and without log lines. The
    /// closure `done` gets the token or the reason for the refusal, and the number of seconds by which this machine's
    /// clock is ahead. The loop calls `done` once, later.
    func tryAsking(
        over http: HTTPSession, at date: UnixTime,
        _ done: @escaping (String?, TrialVerdict?, Int64?) -> Void
    ) throws(CryptoError) {
        let request = try request(at: date)
        let url = request.url
        let words = words
        http.send(request) { result in
            let lead = (try? result.get()).flatMap {
                ProviderAnswer.clockLead(over: $0.header("date"), now: date)
            }
            switch (words.answer(result, of: url, now: date), result) {
            case (.credential(let value, _), _): done(value, nil, lead)
            case (.failure(_, let text), .failure(let error)):
                done(nil, .failed(text, cure: TrialCure.of(error, at: url)), nil)
            case (.failure(.retry, let text), _):
                done(
                    nil,
                    .failed(text, cure: "Look at the status page of \(words.issuer), and try again later."), lead)
            case (.failure(_, let text), _): done(nil, .refused(text, cure: words.cure), lead)
            }
        }
    }

    /// Requests an access token. The event loop calls `done` once, later.
    func ask(over http: HTTPSession, at date: UnixTime, _ done: @escaping (Answer) -> Void) throws(CryptoError) {
        let request = try request(at: date)
        let url = request.url
        http.send(request) { [words, log] result in
            let answer = words.answer(result, of: url, now: date)
            if case .failure(_, let reason) = answer { words.tellNotIssued(log, reason) }
            done(answer)
        }
    }

    private func request(at date: UnixTime) throws(CryptoError) -> HTTPClientRequest {
        var request = try makeRequest(date)
        request.timeout = timeout
        return request
    }
}

extension AccessTokenClient.Words {
    fileprivate func answer(
        _ result: Result<HTTPClientResponse, HTTPClientError>, of url: String, now: UnixTime
    ) -> AccessTokenClient.Answer {
        let server = "the token service \(HTTPClientError.server(of: url))"
        switch result {
        case .success(let response) where response.status == 200:
            guard let grant = AccessGrant(response.body) else {
                return Self.refusal("\(server) returned no access_token")
            }
            return .credential("Bearer \(grant.accessToken)", life: grant.life)
        case .success(let response) where response.status == 429 || response.status >= 500:
            return .failure(.retry(after: nil), "\(server) answers \(response.status)")
        case .success(let response):
            let answer = try? JSONValue(response.body)
            let reason = answer?["error_description"]?.string ?? answer?["error"]?.string ?? "status \(response.status)"
            // If a token request has wrong times, Google refuses the request without naming the clock as the reason, so
            // the daemon adds this reason.
            let clock = ProviderAnswer(response).clockFault(now: now).map { ": \($0)" } ?? ""
            return Self.refusal("\(server) says: \(redacted(reason).prefix(200))\(clock)")
        case .failure(let error):
            let words = "the token service \(error.sentence(about: url))"
            return .failure(error.pushOutcome(words), words)
        }
    }

    private static func refusal(_ words: String) -> AccessTokenClient.Answer {
        .failure(.credentialsRefused(words), words)
    }
}

/// The answer of a token service to a request for an access token.
struct AccessGrant {
    let accessToken: String
    let life: Duration

    /// The longest lifetime of an access token in seconds, which is also the lifetime if the answer has none.
    static let longestLife: Int64 = 3600

    /// Reads the answer; the result is `nil` if the answer has no access token that a header field can carry.
    init?(_ body: [UInt8]) {
        guard let answer = try? JSONValue(body), let token = answer["access_token"]?.string,
            !token.isEmpty, token.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f })
        else { return nil }
        accessToken = token
        let seconds = answer["expires_in"]?.integer ?? Self.longestLife
        life = .seconds(min(max(seconds, 0), Self.longestLife))
    }
}
