package import Addressing
package import Bytes
import Crypto
import HTTPClient
package import PushDelivery
package import Reactor
package import Telemetry
import Timekeeping

/// Sends pushes: runs the rules of ``PushAttempt`` and ``PushLane`` over HTTP.
///
/// Lives on its shard's loop and never blocks it.
///
/// - `@unchecked Sendable` because it is used on the loop's thread alone; what it posts comes back there.
package final class PushService: @unchecked Sendable {
    /// The provider's last word on a push. Called once for each, on the loop, never from within ``send(_:)`` or
    /// ``cancel(_:)``, and not at all for a push that was cancelled.
    package var finished: (PushID, PushOutcome) -> Void = { _, _ in }
    /// Each step of each push, as it happens; nothing may be ordered from within. The last is `finished` or `withdrawn`.
    package var noted: (PushID, PushStep) -> Void = { _, _ in }
    /// How an app that got a push is to name its device to us, by the device's number.
    package var deviceCode: (DeviceID) -> ByteString? = { _ in nil }

    private let loop: EventLoop
    private let http: HTTPSession
    private let directory: PushDirectory
    private let requestTimeout: Duration
    private let credentials: ProviderCredentials
    private var journal: PushJournal

    private var deliveries: [PushID: Delivery] = [:]
    /// Those of them that are notifications.
    private var notifications = 0
    private var ways: PushWays
    /// Pushes that have their place and want a credential that is being made.
    private var withoutCredential: [PushID] = []
    private var pauses = DeadlineQueue<PushID>()
    private var timer: LoopTimer?
    private var chances = ChanceGenerator()
    /// Outcomes not told yet; `nil` where nobody wants to know any more.
    private var settled: [(id: PushID, outcome: PushOutcome)?] = []
    private var isTelling = false

    /// One push on its way.
    private final class Delivery {
        let request: PushRequest
        let app: PushApp
        let way: PushWay
        /// The server, where the token has one of its own.
        let origin: String?
        var attempt: PushAttempt
        /// It holds a place in its lane.
        var hasPlace = false
        let isNotification: Bool
        /// It went through its way's gate, and has not left the lane.
        var isInGate = false
        var credential: HTTPHeader?
        var exchange: HTTPExchange?
        var pause = DeadlineID.none

        init(
            _ request: PushRequest, of app: PushApp, on way: PushWay, to origin: String?, _ attempt: PushAttempt
        ) {
            self.request = request
            self.app = app
            self.way = way
            self.origin = origin
            self.attempt = attempt
            isNotification = request.isNotification
        }
    }

    /// To one provider; over HTTP/2 one of them is enough until its streams are used up.
    private static let connections = 32
    /// Notifications at a time, those in pauses included; they take none of the places of other pushes.
    private static let notificationLimit = 10_000

    package init(loop: EventLoop, settings: PushSettings, log: Log) throws(PushSetupError) {
        self.loop = loop
        journal = PushJournal(log)
        requestTimeout = settings.requestTimeout
        var settings = settings
        let accounts = try ServiceAccount.all(of: &settings)
        directory = PushDirectory(settings)
        var limits = HTTPSession.Limits()
        limits.connectionsPerHost = Self.connections
        limits.requests = (directory.apps.map(\.lane.requests).max() ?? 0) + 1
        http = HTTPSession(on: loop, limits: limits)
        credentials = try ProviderCredentials(
            directory, accounts: accounts, requestTimeout: settings.requestTimeout, http: http, log: log)
        ways = PushWays(directory, plainLimit: Self.connections)
        do throws(SystemError) {
            timer = try LoopTimer(on: loop) { [weak self] in self?.timerFired() }
        } catch {
            throw PushSetupError("no timer: \(error)")
        }
        credentials.changed = { [weak self] in self?.credentialsChanged() }
    }

    /// The public key that web push subscriptions are to be made for, base64url.
    package var vapidKey: String? { credentials.vapidKey }

    /// Gets ready for the first call: access tokens are fetched now, and ahead of their end from then on; a connection to
    /// each provider is opened and kept.
    package func start() throws(SystemError) {
        try credentials.keepReady()
        for way in ways.all where way.app.keepsConnection {
            if let url = way.app.baseURL { http.keepWarm(way.route.request(to: url)) }
        }
    }

    // MARK: Orders

    package func send(_ request: PushRequest) {
        let now = loop.moment
        let app = directory.app(for: request.token).flatMap { directory[$0] }
        guard let app, request.isNotification ? notificationRoom > 0 : deliveries.count - notifications < ways.limit
        else {
            if let app {
                ways.standing(of: app).report.count(.retry(after: nil), at: now.date)
            } else {
                journal.figures.count(.pushWithoutApp)
            }
            noted(request.id, .refused(app == nil ? .noApp : .queueFull))
            noted(request.id, .finished(.retry(after: nil)))
            settle(request.id, .retry(after: nil))
            tellLater()
            return
        }
        let pauses: PushAttempt.Pauses =
            switch request.message {
            case .incomingCall, .silent: .call
            case .missedCalls: .missedCalls
            case .notification: .notification
            }
        let origin = app.origin(of: request.token)
        let delivery = Delivery(
            request, of: app, on: ways.way(of: app, to: origin), to: origin,
            PushAttempt(
                pauses: pauses, deadline: now.instant + (request.deadline - now.date), answerTimeout: requestTimeout))
        deliveries[request.id] = delivery
        if delivery.isNotification { notifications += 1 }
        delivery.way.deliveries += 1
        noted(request.id, .queued(app: app.name))
        enqueue(delivery, now: now.instant)
        armTimer()
        tellLater()
    }

    /// Notifications that are taken now.
    package var notificationRoom: Int { max(0, Self.notificationLimit - notifications) }

    /// Whether a push could be sent, as far as can be known without sending it.
    package func verdict(on request: PushRequest) -> PushVerdict {
        directory.verdict(on: request, now: loop.moment.date)
    }

    /// Takes a push back: the call is over, or its device has come.
    package func cancel(_ id: PushID) {
        guard let delivery = deliveries.removeValue(forKey: id) else {
            for index in settled.indices where settled[index]?.id == id { settled[index] = nil }
            return
        }
        delivery.way.standing.report.withdrawn += 1
        noted(id, .withdrawn)
        let now = loop.now
        delivery.way.deliveries -= 1
        delivery.attempt.cancelled()
        pauses.cancel(delivery.pause)
        delivery.exchange?.cancel()
        if delivery.isNotification { notifications -= 1 }
        leave(delivery, .unknown, now: now)
        leaveGate(delivery, now: now)
        armTimer()
        tellLater()
    }

    /// Ends all requests; nothing is reported any more.
    package func close() {
        finished = { _, _ in }
        deliveries = [:]
        timer?.disarm()
        http.close()
    }

    /// Counters, and gauges as they stand.
    package var counters: CounterSet {
        var figures = journal.figures
        figures.set(.pushQueue, to: ways.all.reduce(0) { $0 + $1.queued })
        figures.set(.pushesInFlight, to: ways.all.reduce(0) { $0 + $1.lane.inFlight })
        return figures
    }

    /// How each app's pushes fare, in the order of the directory.
    package var reports: [(app: PushApp, report: PushAppReport)] { ways.reports }

    // MARK: One try

    private func run(_ action: PushAttempt.Action, _ delivery: Delivery, now: Instant) {
        switch action {
        case .none: break
        case .enqueue: enqueue(delivery, now: now)
        case .renewCredentialAndEnqueue:
            credentials.refused(delivery.credential, by: delivery.app.id)
            enqueue(delivery, now: now)
        case .send(let end): transmit(delivery, until: end, now: now)
        case .arm(let instant):
            delivery.way.standing.report.retried += 1
            delivery.pause = pauses.schedule(delivery.request.id, at: instant)
        case .finish(let outcome):
            deliveries[delivery.request.id] = nil
            delivery.way.deliveries -= 1
            if delivery.isNotification { notifications -= 1 }
            note(outcome, of: delivery, now: now)
            settle(delivery.request.id, outcome)
        }
    }

    private func enqueue(_ delivery: Delivery, now: Instant) {
        if delivery.isNotification {
            guard delivery.way.gate.arrived(delivery.request.id) else { return }
            delivery.isInGate = true
        }
        enterLane(delivery, now: now)
    }

    private func enterLane(_ delivery: Delivery, now: Instant) {
        switch delivery.way.lane.arrived(delivery.request.id, now: now) {
        case .start: begin(delivery, now: now)
        case .wait: break
        case .refuse:
            noted(delivery.request.id, .refused(.queueFull))
            delivery.attempt.cancelled()
            run(.finish(.retry(after: nil)), delivery, now: now)
            leaveGate(delivery, now: now)
        }
    }

    /// The push has its place.
    private func begin(_ delivery: Delivery, now: Instant) {
        delivery.hasPlace = true
        switch credentials.credential(for: delivery.app.id, at: delivery.origin) {
        case .ready(let header):
            delivery.credential = header
            run(delivery.attempt.turnCame(now: now), delivery, now: now)
            // Too late: nothing was sent.
            if delivery.attempt.state == .ended { leave(delivery, .unknown, now: now) }
        case .later: withoutCredential.append(delivery.request.id)
        case .none(let outcome):
            if let problem = credentials.problem(of: delivery.app.id) {
                noted(delivery.request.id, .answered(outcome, status: nil, problem: problem))
            }
            leave(delivery, .unknown, now: now)
            run(answered(delivery, outcome, now: now), delivery, now: now)
        }
    }

    private func transmit(_ delivery: Delivery, until end: Instant, now: Instant) {
        switch render(delivery) {
        case .impossible(let outcome): abandon(delivery, outcome, now: now)
        case .request(let message):
            let request: HTTPClientRequest
            do throws(CryptoError) {
                request = try delivery.way.route.request(
                    message, credential: delivery.credential, timeout: end - now, date: loop.moment.date)
            } catch {
                return abandon(delivery, .credentialsRefused(error.description), now: now)
            }
            delivery.way.standing.report.sent += 1
            noted(delivery.request.id, .sent)
            let url = request.url
            delivery.exchange = http.send(request) { [weak self] in self?.exchanged(delivery, with: url, $0) }
        }
    }

    private func render(_ delivery: Delivery) -> PushRendering {
        let device = delivery.request.device
        return delivery.app.render(
            delivery.request,
            deviceCode: delivery.app.asksForDeviceCode && device != .nobody ? deviceCode(device) : nil,
            now: loop.moment.date)
    }

    /// There is no request that could be sent.
    private func abandon(_ delivery: Delivery, _ outcome: PushOutcome, now: Instant) {
        leave(delivery, .unknown, now: now)
        run(answered(delivery, outcome, now: now), delivery, now: now)
    }

    private func exchanged(
        _ delivery: Delivery, with url: String, _ result: Result<HTTPClientResponse, HTTPClientError>
    ) {
        guard deliveries[delivery.request.id] === delivery else { return }
        delivery.exchange = nil
        let now = loop.moment
        let outcome: PushOutcome
        let isFailure: Bool
        let standing = delivery.way.standing
        var status: Int?
        var problem: String?
        switch result {
        case .success(let response):
            journal.figures.observe(.pushAnswer, response.timings.total)
            let answer = ProviderAnswer(response)
            outcome = delivery.app.outcome(of: answer, isProven: standing.isProven, now: now.date)
                .redacted(of: delivery.request.token)
            isFailure = answer.isFailureOfProvider
            status = answer.status
            if outcome.isAccepted { standing.isProven = true }
        case .failure(let error):
            let words = error.sentence(about: url)
            outcome = error.pushOutcome(words).redacted(of: delivery.request.token)
            isFailure = true
            problem = words
            journal.notReached(delivery.app, words, now: now.instant)
        }
        noted(delivery.request.id, .answered(outcome, status: status, problem: problem))
        let health: PushLane.Health = !isFailure ? .answered : delivery.attempt.tries > 1 ? .failedAgain : .failed
        leave(delivery, health, now: now.instant)
        run(answered(delivery, outcome, now: now.instant), delivery, now: now.instant)
        armTimer()
        tell()
    }

    private func answered(_ delivery: Delivery, _ outcome: PushOutcome, now: Instant) -> PushAttempt.Action {
        delivery.attempt.answered(outcome, chance: .random(in: 0..<1, using: &chances), now: now)
    }

    // MARK: Places

    /// Gives the place back, if there is one, and lets others go.
    private func leave(_ delivery: Delivery, _ health: PushLane.Health, now: Instant) {
        guard delivery.hasPlace else { return }
        delivery.hasPlace = false
        delivery.way.lane.left(health, now: now)
        drain(delivery.way, now: now)
        leaveGate(delivery, now: now)
    }

    /// Lets the next notifications into the lane.
    private func leaveGate(_ delivery: Delivery, now: Instant) {
        guard delivery.isInGate else { return }
        delivery.isInGate = false
        let way = delivery.way
        way.gate.left()
        // One that cannot be sent after all leaves at once, in the middle of this.
        guard !way.isOpening else { return }
        way.isOpening = true
        while let id = way.gate.next() {
            guard let next = deliveries[id] else {
                way.gate.left()
                continue
            }
            next.isInGate = true
            enterLane(next, now: now)
        }
        way.isOpening = false
    }

    private func drain(_ way: PushWay, now: Instant) {
        // A push that cannot be sent after all leaves at once, in the middle of this; the loop here goes on with the next.
        guard !way.isDraining else { return }
        way.isDraining = true
        while let id = way.lane.next(now: now) {
            if let delivery = deliveries[id] {
                begin(delivery, now: now)
            } else {
                way.lane.left(.unknown, now: now)
            }
        }
        way.isDraining = false
    }

    private func credentialsChanged() {
        let now = loop.now
        let waiting = withoutCredential
        withoutCredential = []
        for id in waiting {
            if let delivery = deliveries[id], delivery.hasPlace { begin(delivery, now: now) }
        }
        armTimer()
        tell()
    }

    // MARK: Time

    private func timerFired() {
        let now = loop.now
        while let id = pauses.popExpired(now: now) {
            guard let delivery = deliveries[id] else { continue }
            delivery.pause = .none
            run(delivery.attempt.deadlineReached(now: now), delivery, now: now)
        }
        for way in ways.all { drain(way, now: now) }
        armTimer()
        tell()
    }

    private func armTimer() {
        var deadline = pauses.nextDeadline ?? .distantFuture
        for way in ways.all { deadline = min(deadline, way.lane.nextProbe ?? .distantFuture) }
        if deadline == .distantFuture { timer?.disarm() } else { timer?.arm(at: deadline) }
    }

    // MARK: Outcomes

    private func settle(_ id: PushID, _ outcome: PushOutcome) { settled.append((id, outcome)) }

    /// From within an order: its giver is in the middle of its own work now.
    private func tellLater() {
        guard !settled.isEmpty else { return }
        loop.post { [weak self] in self?.tell() }
    }

    /// Whoever is told may give new orders at once; what these settle is told in the same loop.
    private func tell() {
        guard !isTelling else { return }
        isTelling = true
        var index = 0
        while index < settled.count {
            let next = settled[index]
            index += 1
            if let next { finished(next.id, next.outcome) }
        }
        settled.removeAll(keepingCapacity: true)
        isTelling = false
    }

    private func note(_ outcome: PushOutcome, of delivery: Delivery, now: Instant) {
        noted(delivery.request.id, .finished(outcome))
        delivery.way.standing.report.count(outcome, at: loop.moment.date)
        journal.finished(
            outcome, of: delivery.app, token: delivery.request.token, tries: delivery.attempt.tries, now: now,
            payload: redactedPayload(of: delivery))
    }

    private func redactedPayload(of delivery: Delivery) -> String {
        switch render(delivery) {
        case .request(let request): RedactedPayload.text(of: request.body)
        case .impossible: "none"
        }
    }
}

/// Numbers for jitter, without a system call for each (SplitMix64): nothing is guarded by them.
private struct ChanceGenerator: RandomNumberGenerator {
    private var state = UInt64.random(in: .min ... .max)

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }
}
