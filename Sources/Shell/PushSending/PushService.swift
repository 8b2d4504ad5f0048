import Crypto
import HTTP1Connections
import HTTP2Connections
import HTTPClient
package import PushDelivery
package import Reactor
package import Telemetry
import Timekeeping

/// Does over HTTP what the rules order: hands pushes to providers, and makes what shows these who we are.
///
/// Lives on its shard's loop and never blocks it.
///
/// - `@unchecked Sendable` because it is used on the loop's thread alone; what it posts comes back there.
package final class PushService: @unchecked Sendable {
    /// What became of a push or a credential. Called once for each on the loop, also from within the order.
    package var happened: (PushDispatcher.Event) -> Void = { _ in }
    /// The settings, with the projects of the service accounts.
    package let settings: PushSettings
    /// What the rules are to send pushes with.
    package let setup: DispatchSetup

    private let loop: EventLoop
    private let http: HTTPSession
    private let makers: CredentialMakers
    private var connections: ProviderConnections

    /// How many connections to one provider there may be. With HTTP/2 one is enough until its streams are used up.
    private static let connectionLimit = 32

    package init(loop: EventLoop, settings: PushSettings, log: Log) throws(PushSetupError) {
        self.loop = loop
        var settings = settings
        let accounts = try ServiceAccount.all(of: &settings)
        self.settings = settings
        let directory = PushDirectory(settings)
        connections = ProviderConnections(directory)
        var limits = HTTPSession.Limits()
        limits.connectionsPerHost = Self.connectionLimit
        limits.source = settings.sourceAddress
        limits.requests = (directory.apps.map(\.limits.requests).max() ?? 0) + 1
        http = HTTPSession(on: loop, limits: limits, over: [HTTP2Transport.self, HTTP1Transport.self])
        makers = try CredentialMakers(
            directory, accounts: accounts, requestTimeout: settings.requestTimeout, http: http, log: log)
        var setup = DispatchSetup(directory, PushCredentials(makers.sources, kinds: makers.all.map(\.kind)))
        setup.answerTimeout = settings.requestTimeout
        setup.plainLimit = Self.connectionLimit
        setup.seed = .random(in: .min ... .max)
        self.setup = setup
    }

    /// The public key that web push subscriptions are to be made for, base64url.
    package var vapidKey: String? { makers.vapidKey }

    /// Opens a connection to each provider ahead of the first push, and keeps it.
    package func start() {
        for app in setup.directory.apps where app.keepsConnection {
            if let url = app.baseURL { http.keepWarm(connections.warmUp(url, of: app)) }
        }
    }

    /// Ends all requests; nothing is told any more.
    package func close() {
        happened = { _ in }
        http.close()
    }

    // MARK: Orders

    package func send(_ transmission: PushDispatcher.Transmission) {
        let request: HTTPClientRequest
        do throws(CryptoError) {
            request = try connections.request(for: transmission, now: loop.moment)
        } catch {
            return happened(.notSent(transmission, .credentialsRefused(error.description)))
        }
        let url = request.url
        http.send(request) { [weak self] result in
            switch result {
            case .success(let response):
                self?.happened(.answered(transmission, ProviderAnswer(response), after: response.duration))
            case .failure(let error):
                let words = error.sentence(about: url)
                self?.happened(.unanswered(transmission, error.pushOutcome(words), words))
            }
        }
    }

    /// Makes a credential with a key of ours, or asks a token service for one.
    package func make(_ order: PushCredentials.Order) {
        let date = loop.moment.date
        do throws(CryptoError) {
            switch makers.all[order.number] {
            case .signer(_, let sign): happened(.credentialMade(order, try sign(order.origin, date)))
            case .google(let client):
                try client.ask(at: date) { [weak self] answer in
                    switch answer {
                    case .credential(let value, let life):
                        self?.happened(.credentialMade(order, value, life: life))
                    case .failure(let outcome, let words):
                        self?.happened(.credentialFailed(order, outcome, problem: words))
                    }
                }
            }
        } catch {
            happened(.credentialFailed(order, .credentialsRefused(error.description)))
        }
    }
}
