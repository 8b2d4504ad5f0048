package import Addressing
import Crypto
import HTTP1Connections
import HTTP2Connections
import HTTPClient
package import PushDelivery
package import Reactor
package import Telemetry
import Timekeeping

/// Executes the engine's orders over HTTP: sends pushes, and creates the daemon's credentials for providers.
///
/// The push service runs on its shard's loop and never blocks the loop.
///
/// - The class is `@unchecked Sendable`, because only the loop's thread uses it. Other threads that work for the push
///   service post their results to the loop.
package final class PushService: @unchecked Sendable {
    /// Receives the outcome of each push and of each order for a credential, on the loop. The closure ``happened`` can
    /// be called before the ordering function has returned.
    package var happened: (PushDispatcher.Event) -> Void = { _ in }
    /// The settings of pushes, completed with the projects of the service accounts.
    package private(set) var settings: PushSettings
    /// The dispatcher's setup: the apps, their credentials, and the limits for sending.
    package private(set) var setup: DispatchSetup

    let loop: EventLoop
    private let log: Log
    private(set) var http: HTTPSession
    private var means: [AppConnection]
    private(set) var makers: CredentialMakers
    private(set) var connections: ProviderConnections
    /// Sends pushes to servers that phones choose; `nil` if the settings name all servers.
    let chosenHosts: ChosenHosts?
    /// HTTP sessions from before a reload, which are kept because answers to their requests may still arrive.
    private var retired: [HTTPSession] = []
    private var retirement: LoopTimer?

    /// The maximum number of connections to one push provider. With HTTP/2, a second connection is needed only when the
    /// first connection has no free stream.
    private static let connectionLimit = 32
    private static let retiredLimit = 4

    package init(loop: EventLoop, settings: PushSettings, log: Log) throws(PushSetupError) {
        self.loop = loop
        self.log = log
        var settings = settings
        let accounts = try ServiceAccount.all(of: &settings)
        self.settings = settings
        let directory = PushDirectory(settings)
        means = directory.apps.map { AppConnection($0.rules.connection, proxy: settings.proxy) }
        connections = ProviderConnections(directory, means)
        http = Self.session(for: directory, settings, on: loop)
        chosenHosts = directory.apps.first { $0.chosenHosts != nil }.map {
            ChosenHosts(requests: $0.limits.requests, source: settings.sourceAddress, on: loop)
        }
        var makers = CredentialMakers(accounts: accounts, requestTimeout: settings.requestTimeout, log: log)
        try makers.make(for: directory.apps, means)
        self.makers = makers
        var setup = DispatchSetup(directory, PushCredentials(makers.sources, kinds: makers.all.mapValues(\.kind)))
        setup.answerTimeout = settings.requestTimeout
        setup.plainLimit = Self.connectionLimit
        setup.seed = .random(in: .min ... .max)
        self.setup = setup
    }

    private static func session(
        for directory: PushDirectory, _ settings: PushSettings, on loop: EventLoop
    ) -> HTTPSession {
        var limits = HTTPSession.Limits()
        limits.connectionsPerHost = connectionLimit
        limits.source = settings.sourceAddress
        limits.requests = (directory.apps.map(\.limits.requests).max() ?? 0) + 2
        return HTTPSession(on: loop, limits: limits, over: [HTTP2Transport.self, HTTP1Transport.self])
    }

    /// The public key with which apps create web push subscriptions, in base64url.
    package var vapidKey: String? { makers.vapidKey }

    /// Sets the function that returns the daemon's own listeners, to which pushes are never sent if a phone has chosen the
    /// server.
    package func setOwnEndpoints(_ endpoints: @escaping () -> [Endpoint]) { chosenHosts?.ownEndpoints = endpoints }

    /// Opens a connection to each provider before the first push, and keeps the connection open.
    package func start() {
        for app in setup.directory.apps where app.keepsConnection {
            if let url = app.baseURL { http.keepWarm(connections.warmUp(url, of: app)) }
        }
    }

    /// Cancels all requests, and never calls ``happened`` again.
    package func close() {
        happened = { _ in }
        http.close()
        chosenHosts?.close()
        closeRetired()
    }

    private func closeRetired() {
        for session in retired { session.close() }
        retired = []
    }

    // MARK: Reload

    /// Reads keys and certificates again, and applies the changed settings of keys and proxies. The former contents of
    /// an unusable file stay in use, and a log line reports the file. After a reload, the caller must give the
    /// credentials of ``setup`` to the engine.
    package func reload(_ changed: PushSettings) {
        var changed = changed
        // Each problem with a file is reported once, although several apps can use the file.
        var problems = Set<String>()
        func report(_ problem: String, of provider: String) {
            guard problems.insert(problem).inserted else { return }
            log.error(
                "the key of a push provider was not reloaded, so the old key stays in use",
                [.provider: .text(provider), .reason: .text(problem)])
        }
        let accounts = ServiceAccount.all(of: &changed, after: (settings, makers.accounts)) { problem in
            report(problem, of: "fcm")
        }
        let directory = PushDirectory(changed)
        // A changed list of apps needs a restart, so no setting of apps is applied.
        guard directory.apps.map(\.name) == setup.directory.apps.map(\.name) else { return }
        let now = zip(directory.apps, means).map { app, former in
            AppConnection(app.rules.connection, proxy: changed.proxy, after: former) { error in
                guard problems.insert("\(error)").inserted else { return }
                log.error(
                    "the certificate was not reloaded, so the old certificate stays in use",
                    [.provider: .text(app.name), .reason: .described(error)])
            }
        }
        var renewed = CredentialMakers(accounts: accounts, requestTimeout: changed.requestTimeout, log: log)
        renewed.make(for: directory.apps, now, after: makers) { app, error in
            report(error.description, of: app.name)
        }
        makers = renewed
        settings = changed
        setup.credentials = PushCredentials(makers.sources, kinds: makers.all.mapValues(\.kind))
        guard now != means else { return }
        means = now
        connections = ProviderConnections(directory, means)
        retire()
        http = Self.session(for: directory, changed, on: loop)
        start()
    }

    /// Retires the present HTTP session, which sends no more requests and closes after the time for the last answer.
    private func retire() {
        retired.append(http)
        if retired.count > Self.retiredLimit { retired.removeFirst().close() }
        if retirement == nil { retirement = try? LoopTimer(on: loop) { [weak self] in self?.closeRetired() } }
        guard let retirement else { return closeRetired() }
        retirement.arm(at: loop.now + settings.requestTimeout + .seconds(1))
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
        if let chosenHosts, let app = setup.directory[transmission.app], app.chosenHosts != nil {
            return send(
                transmission, request, over: chosenHosts, isPrivate: app.rules.isPrivate(transmission.push.token))
        }
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

    /// Sends a push to a server that a phone has chosen.
    private func send(
        _ transmission: PushDispatcher.Transmission, _ request: HTTPClientRequest, over hosts: ChosenHosts,
        isPrivate: Bool
    ) {
        // The body is empty if the keys of the subscription are invalid. UnifiedPush allows no push without payload.
        guard !request.body.isEmpty else { return happened(.notSent(transmission, .noSuitableToken)) }
        let url = request.url
        hosts.send(request, until: transmission.end, isPrivate: isPrivate) { [weak self] result in
            switch result {
            case .success(let response):
                self?.happened(.answered(transmission, ProviderAnswer(response), after: response.duration))
            case .failure(.http(let error)):
                let words = error.sentence(about: url)
                self?.happened(.unanswered(transmission, error.pushOutcome(words), words))
            case .failure(.refused(let refusal)):
                let words = "\(HTTPClientError.server(of: url)): \(refusal)"
                self?.happened(.unanswered(transmission, .noConnection(words), words))
            }
        }
    }

    /// Creates a credential: signs it with a key of the daemon, or requests it from a token service.
    package func make(_ order: PushCredentials.Order) {
        let date = loop.moment.date
        do throws(CryptoError) {
            // An order from before a reload is dropped, because nobody waits for its result.
            guard let maker = makers.all[order.number] else { return }
            switch maker {
            case .signer(_, let sign): happened(.credentialMade(order, try sign(order.origin, date)))
            case .accessToken(let client):
                try client.ask(over: http, at: date) { [weak self] answer in
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
