import Crypto
import HTTP1Connections
import HTTP2Connections
import HTTPClient
package import PushDelivery
package import Reactor
package import Telemetry
import Timekeeping

/// Carries out the orders of the rules over HTTP: it sends pushes to providers, and makes the credentials that identify
/// the daemon there.
///
/// It lives on its shard's loop and never blocks it.
///
/// - `@unchecked Sendable` because it is used only on the loop's thread. Work on other threads posts its results back
///   to the loop.
package final class PushService: @unchecked Sendable {
    /// Called on the loop with the outcome of each push and each credential, once each. It can be called before the
    /// function that gave the order returns.
    package var happened: (PushDispatcher.Event) -> Void = { _ in }
    /// The settings of pushes. The projects of Google's service accounts are filled in.
    package let settings: PushSettings
    /// The dispatcher's setup: the apps, their credentials, and the limits for sending.
    package let setup: DispatchSetup

    let loop: EventLoop
    let http: HTTPSession
    let makers: CredentialMakers
    private(set) var connections: ProviderConnections

    /// The maximum number of connections to one provider. With HTTP/2 one connection is enough until its streams are
    /// used up.
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
        limits.requests = (directory.apps.map(\.limits.requests).max() ?? 0) + 2
        http = HTTPSession(on: loop, limits: limits, over: [HTTP2Transport.self, HTTP1Transport.self])
        makers = try CredentialMakers(
            directory, accounts: accounts, requestTimeout: settings.requestTimeout, http: http, log: log)
        var setup = DispatchSetup(directory, PushCredentials(makers.sources, kinds: makers.all.map(\.kind)))
        setup.answerTimeout = settings.requestTimeout
        setup.plainLimit = Self.connectionLimit
        setup.seed = .random(in: .min ... .max)
        self.setup = setup
    }

    /// The public key with which apps create web push subscriptions, in base64url.
    package var vapidKey: String? { makers.vapidKey }

    /// Opens a connection to each provider before the first push, and keeps it open.
    package func start() {
        for app in setup.directory.apps where app.keepsConnection {
            if let url = app.baseURL { http.keepWarm(connections.warmUp(url, of: app)) }
        }
    }

    /// Cancels all requests. ``happened`` is not called any more.
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

    /// Makes a credential: signs it with a key of the daemon, or requests it from a token service.
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
