import Crypto
import HTTPClient
import HTTPSemantics
package import PushDelivery
import Reactor
import Timekeeping

/// The result of all trial requests of an app.
package struct TrialResult: Hashable, Sendable {
    package let verdict: TrialVerdict
    /// How many seconds this machine's clock is ahead of the provider's clock; `nil` if no answer had a `Date`.
    package let clockLead: Int64?

    package init(verdict: TrialVerdict, clockLead: Int64?) {
        self.verdict = verdict
        self.clockLead = clockLead
    }
}

/// The requests that try the credentials of one push app, one after the other. The worst verdict of the trial requests
/// is the app's result.
///
/// Only the event loop uses the trial requests of an app.
private final class AppTrials {
    private var waiting: ArraySlice<CredentialTrial>
    private var verdict = TrialVerdict.works
    private var clockLead: Int64?
    private let send: (CredentialTrial, @escaping (TrialVerdict, Int64?) -> Void) -> Void
    private let done: (TrialResult) -> Void

    init(
        _ trials: [CredentialTrial],
        send: @escaping (CredentialTrial, @escaping (TrialVerdict, Int64?) -> Void) -> Void,
        done: @escaping (TrialResult) -> Void
    ) {
        waiting = trials[...]
        self.send = send
        self.done = done
    }

    func next() {
        guard let trial = waiting.popFirst() else {
            return done(TrialResult(verdict: verdict, clockLead: clockLead))
        }
        send(trial) { [self] verdict, lead in
            let verdict = verdict.about(trial.subject)
            if verdict.isWorse(than: self.verdict) { self.verdict = verdict }
            clockLead = lead ?? clockLead
            next()
        }
    }
}

extension PushService {
    /// Tries the credentials of an app with requests that reach no phone. The closure `done` is called once, on the
    /// loop, possibly before ``tryCredentials(of:_:)`` returns.
    package func tryCredentials(of app: PushApp, _ done: @escaping (TrialResult) -> Void) {
        let trials = app.trials
        guard !trials.isEmpty else {
            return done(TrialResult(verdict: .reached("there is nothing to ask this provider"), clockLead: nil))
        }
        credential(of: app, trials.contains(where: \.showsCredential)) { [self] credential, refusal, lead in
            if let refusal { return done(TrialResult(verdict: refusal, clockLead: lead)) }
            AppTrials(trials) { trial, answered in
                self.send(trial, of: app, credential, answered)
            } done: { result in
                done(TrialResult(verdict: result.verdict, clockLead: result.clockLead ?? lead))
            }.next()
        }
    }

    /// Passes the value of `authorization` to `done`, or the reason why no value could be made.
    private func credential(
        of app: PushApp, _ isWanted: Bool, _ done: @escaping (String?, TrialVerdict?, Int64?) -> Void
    ) {
        guard isWanted else { return done(nil, nil, nil) }
        let now = loop.moment.date
        do throws(CryptoError) {
            switch makers.sources[app.id.index] {
            case .none: done(nil, nil, nil)
            case .fixed(let value): done(value, nil, nil)
            case .made(let number):
                switch makers.all[number] {
                case .signer(_, let sign): done(try sign(app.baseURL, now), nil, nil)
                case .accessToken(let client): try client.tryAsking(over: http, at: now, done)
                // If a reload has removed the maker of the trial's credential, the trial ends without a result, because
                // the reload also starts new trials.
                case nil: done(nil, nil, nil)
                }
            }
        } catch {
            done(nil, .refused(error.description, cure: TrialCure.files), nil)
        }
    }

    private func send(
        _ trial: CredentialTrial, of app: PushApp, _ credential: String?,
        _ answered: @escaping (TrialVerdict, Int64?) -> Void
    ) {
        var request = connections.warmUp(trial.request.url, of: app)
        request.method = trial.request.method
        request.headers = trial.request.headers.map { HTTPField($0.name, $0.value) }
        if trial.showsCredential, let credential { request.headers.append(HTTPField("authorization", credential)) }
        request.body = trial.request.body
        request.timeout = settings.requestTimeout
        request.connectTimeout = settings.requestTimeout
        let url = trial.request.url
        let loop = loop
        http.send(request) { result in
            switch result {
            case .success(let response):
                answered(
                    app.verdict(on: ProviderAnswer(response)).redacted(ofCredential: credential),
                    ProviderAnswer.clockLead(over: response.header("date"), now: loop.moment.date))
            case .failure(let error):
                answered(.failed(error.sentence(about: url), cure: TrialCure.of(error, at: url)), nil)
            }
        }
    }
}

/// Tells the operator what to do when a trial request gets no answer.
enum TrialCure {
    static let files = "Check the key and certificate files of the app: sippushd check-config."

    /// Returns the host in a text of the form `host:port`.
    private static func host(of server: String) -> String {
        server.lastIndex(of: ":").map { String(server[..<$0]) } ?? server
    }

    static func of(_ error: HTTPClientError, at url: String) -> String {
        let server = HTTPClientError.server(of: url)
        return switch error.code {
        case .resolve:
            "Ask DNS from this machine: dig \(host(of: server)). Check the name servers in /etc/resolv.conf, and the address if the settings name it."
        case .connect, .timeout, .reset:
            "Let TCP to \(server) through the firewall. An IPv6 address without a route has the same effect."
        case .tls:
            "Check ca-file, and the certificate that \(server) shows. A proxy that opens TLS has the same effect."
        case .proxy: "Check the setting proxy: host, port, and whether the proxy runs."
        case .proxyRefused:
            "Let the proxy allow CONNECT to \(server), and check user and password in the setting proxy."
        case .invalidRequest: files
        case .badResponse, .bodyTooLarge: "Another server answers at \(server): check the address in the settings."
        case .cancelled, .failed: "Try again."
        }
    }
}
