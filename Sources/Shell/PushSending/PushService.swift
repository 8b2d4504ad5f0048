package import Addressing
package import Bytes
import Crypto
import HTTP1Connections
import HTTP2Connections
import HTTPClient
package import PushDelivery
package import Reactor
package import Telemetry
import Timekeeping

/// Sends pushes: performs over HTTP the actions that ``PushDispatcher`` decides.
///
/// Used only on its shard's loop, which it never blocks.
///
/// - `@unchecked Sendable` because it is used only on the loop's thread; posted work comes back there.
package final class PushService: @unchecked Sendable {
    /// The final outcome of a push. Called once for each push, on the loop, never from within ``send(_:)`` or
    /// ``cancel(_:)``. Not called for a withdrawn push.
    package var finished: (PushID, PushOutcome) -> Void = { _, _ in }
    /// The steps of pushes as they happen, also from within orders. The last step of each push is `finished` or
    /// `withdrawn`.
    package var noted: ([PushNote]) -> Void = { _ in }
    /// The code by which an app names its device to the daemon, by the device's number.
    package var deviceCode: (DeviceID) -> ByteString? {
        get { dispatcher.deviceCode }
        set { dispatcher.deviceCode = newValue }
    }

    private let loop: EventLoop
    private let http: HTTPSession
    private let directory: PushDirectory
    private let dispatcher: PushDispatcher
    private let makers: CredentialMakers
    private var connections: ProviderConnections
    private var timer: LoopTimer?
    /// The actions that are being run. The array is kept, so that its memory is reused.
    private var actions: [PushDispatcher.Action] = []
    private var isRunningActions = false
    /// The steps that happened meanwhile.
    private var notes: [PushNote] = []
    private var isTelling = false

    /// The maximum number of connections to one provider. With HTTP/2 one is enough until its streams are used up.
    private static let connectionLimit = 32

    package init(loop: EventLoop, settings: PushSettings, log: Log) throws(PushSetupError) {
        self.loop = loop
        var settings = settings
        let accounts = try ServiceAccount.all(of: &settings)
        self.settings = settings
        directory = PushDirectory(settings)
        connections = ProviderConnections(directory)
        var limits = HTTPSession.Limits()
        limits.connectionsPerHost = Self.connectionLimit
        limits.source = settings.sourceAddress
        limits.requests = (directory.apps.map(\.limits.requests).max() ?? 0) + 1
        http = HTTPSession(on: loop, limits: limits, over: [HTTP2Transport.self, HTTP1Transport.self])
        makers = try CredentialMakers(
            directory, accounts: accounts, requestTimeout: settings.requestTimeout, http: http, log: log)
        dispatcher = PushDispatcher(
            directory, PushCredentials(makers.sources, kinds: makers.all.map(\.kind)),
            answerTimeout: settings.requestTimeout, plainLimit: Self.connectionLimit,
            seed: .random(in: .min ... .max), log: log)
        do throws(SystemError) {
            timer = try LoopTimer(on: loop) { [weak self] in self?.timerFired() }
        } catch {
            throw PushSetupError("cannot create a timer: \(error)")
        }
    }

    /// The settings, with the projects of the service accounts.
    package let settings: PushSettings

    /// The public key for web push subscriptions, base64url.
    package var vapidKey: String? { makers.vapidKey }

    /// Prepares for the first call: fetches access tokens now and later before they expire, and opens a connection to
    /// each provider and keeps it open.
    package func start() {
        dispatcher.started(now: loop.moment)
        runActions()
        for app in directory.apps where app.keepsConnection {
            if let url = app.baseURL { http.keepWarm(connections.warmUp(url, of: app)) }
        }
    }

    // MARK: Orders

    package func send(_ request: PushRequest) {
        dispatcher.pushAsked(request, now: loop.moment)
        runActions()
        tellLater()
    }

    /// Withdraws a push: the call is over, or the device registered. The answer to a request that was already sent is
    /// still processed.
    package func cancel(_ id: PushID) {
        dispatcher.cancelled(id, now: loop.moment)
        runActions()
        tellLater()
    }

    /// How many more notifications are accepted now.
    package var notificationRoom: Int { dispatcher.notificationRoom }

    /// Whether a push could be sent, as far as this can be known without sending it.
    package func verdict(on request: PushRequest) -> PushVerdict {
        directory.verdict(on: request, now: loop.moment.date)
    }

    /// Ends all requests. No outcome is reported any more.
    package func close() {
        finished = { _, _ in }
        dispatcher.stopped()
        timer?.disarm()
        http.close()
    }

    /// Counters, and the current values of gauges.
    package var counters: CounterSet { dispatcher.figures }

    /// The push statistics of each app, in the order of the directory.
    package var reports: [(app: PushApp, report: PushAppReport)] { dispatcher.reports }

    // MARK: Actions

    /// The only place where the dispatcher's decisions become I/O. A callback for a step may give new orders.
    private func runActions() {
        guard !isRunningActions else { return }
        isRunningActions = true
        // A push is queued and sent in one step, answered and finished in another.
        notes.reserveCapacity(2)
        dispatcher.takeActions(into: &actions)
        while !actions.isEmpty {
            for action in actions { run(action) }
            dispatcher.takeActions(into: &actions)
        }
        isRunningActions = false
        if !notes.isEmpty { noted(exchange(&notes, with: [])) }
        if let deadline = dispatcher.nextDeadline { timer?.arm(at: deadline) } else { timer?.disarm() }
    }

    private func run(_ action: PushDispatcher.Action) {
        switch action {
        case .tell(let id, let step): notes.append(PushNote(id, step))
        case .send(let transmission): transmit(transmission)
        case .makeCredential(let order): make(order)
        }
    }

    private func timerFired() {
        dispatcher.timePassed(now: loop.moment)
        runActions()
        tell()
    }

    // MARK: Requests

    private func transmit(_ transmission: PushDispatcher.Transmission) {
        let now = loop.moment
        let (slot, id) = (transmission.slot, transmission.id)
        let request: HTTPClientRequest
        do throws(CryptoError) {
            request = try connections.request(for: transmission, now: now)
        } catch {
            return dispatcher.requestFailed(slot, .credentialsRefused(error.description), now: now)
        }
        dispatcher.requestLeft(slot)
        let url = request.url
        http.send(request) { [weak self] in self?.exchanged(slot, id, with: url, $0) }
    }

    private func exchanged(
        _ slot: Int, _ id: PushID, with url: String, _ result: Result<HTTPClientResponse, HTTPClientError>
    ) {
        guard dispatcher.awaitsAnswer(slot, of: id) else { return }
        let now = loop.moment
        switch result {
        case .success(let response):
            dispatcher.answered(
                slot, of: id, with: ProviderAnswer(response), after: response.duration, now: now)
        case .failure(let error):
            let words = error.sentence(about: url)
            dispatcher.unanswered(slot, of: id, error.pushOutcome(words), words, now: now)
        }
        runActions()
        tell()
    }

    // MARK: Credentials

    private func make(_ order: PushCredentials.Order) {
        let now = loop.moment
        do throws(CryptoError) {
            switch makers.all[order.number] {
            case .apple(let signer):
                dispatcher.credentialMade(order, try signer.credential(at: now.date), now: now)
            case .webPush(let signer):
                let credential = try signer.credential(for: order.origin ?? "", at: now.date)
                dispatcher.credentialMade(order, credential, now: now)
            case .google(let client):
                try client.ask(at: now.date) { [weak self] in self?.answered(order, $0) }
            }
        } catch {
            dispatcher.credentialFailed(order, .credentialsRefused(error.description), now: now)
        }
    }

    private func answered(_ order: PushCredentials.Order, _ answer: GoogleTokenClient.Answer) {
        switch answer {
        case .credential(let value, let life):
            dispatcher.credentialMade(order, value, life: life, now: loop.moment)
        case .failure(let outcome, let words):
            dispatcher.credentialFailed(order, outcome, problem: words, now: loop.moment)
        }
        runActions()
        tell()
    }

    // MARK: Outcomes

    /// Reports outcomes later, because the caller is in the middle of its own work.
    private func tellLater() {
        guard dispatcher.hasOutcomes else { return }
        loop.post { [weak self] in self?.tell() }
    }

    /// Reports outcomes. A callback may give new orders, whose outcomes are reported in the same loop.
    private func tell() {
        guard !isTelling else { return }
        isTelling = true
        while let next = dispatcher.nextOutcome() { finished(next.id, next.outcome) }
        isTelling = false
    }
}
