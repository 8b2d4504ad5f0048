package import Addressing
package import Bytes
package import Telemetry
package import Timekeeping

/// Sorts pushes: which server each goes to, when it has its turn, what it carries, whether it is tried again, and what its
/// end is.
///
/// Pure: reads no clock, sends nothing. Feed it events, run the actions that it gives then, tell the outcomes, and come
/// back at ``nextDeadline``.
package final class PushDispatcher {
    package enum Action: Sendable {
        /// ``credentialMade(_:_:life:now:)`` or ``credentialFailed(_:_:problem:now:)`` is told, now or later.
        case makeCredential(PushCredentials.Order)
        /// ``requestLeft(_:)`` or ``requestFailed(_:_:now:)`` is told at once; after the former an answer.
        case send(Transmission)
        /// Nobody waits for the answer any more.
        case cancelRequest(slot: Int)
        case tell(PushID, PushStep)
    }

    /// One request, and where it goes.
    package struct Transmission: Sendable {
        /// Where its push stands here until the answer; used again for others.
        package let slot: Int
        package let id: PushID
        package let app: PushApp.ID
        /// Among the servers that tokens name; `nil`: the app's own.
        package let server: Int?
        package let request: ProviderRequest
        /// The value of `authorization`.
        package let credential: String?
        /// No answer counts after it.
        package let end: Instant
    }

    /// One push on its way.
    private final class Entry {
        let request: PushRequest
        let server: PushServer
        /// Where the token has a server of its own.
        let origin: String?
        let slot: Int
        var attempt: PushAttempt
        /// It is one of those under way in its queue.
        var hasPlace = false
        let isNotification: Bool
        /// It went through its server's gate, and has not left the queue.
        var isInGate = false
        var credential: String?
        var pause = DeadlineID.none

        init(_ request: PushRequest, to server: PushServer, at origin: String?, slot: Int, _ attempt: PushAttempt) {
            self.request = request
            self.server = server
            self.origin = origin
            self.slot = slot
            self.attempt = attempt
            isNotification = request.isNotification
        }
    }

    /// How an app that got a push is to name its device to us, by the device's number.
    package var deviceCode: (DeviceID) -> ByteString? = { _ in nil }

    private let directory: PushDirectory
    private let answerTimeout: Duration
    private var credentials: PushCredentials
    private var servers: PushServers
    private var journal: PushJournal
    private var chances: ChanceGenerator

    private var actions: [Action] = []
    private var entries: [PushID: Entry] = [:]
    private var slots: [Entry?] = []
    private var freeSlots: [Int] = []
    /// Those of the entries that are notifications.
    private var notifications = 0
    /// Pushes that have their place and want a credential that is being made.
    private var withoutCredential: [(entry: Entry, order: PushCredentials.Order)] = []
    private var pauses = DeadlineQueue<PushID>()
    private var keepsCredentials = false
    /// Outcomes not told yet; `nil` where nobody wants to know any more.
    private var settled: [(id: PushID, outcome: PushOutcome)?] = []
    private var firstSettled = 0

    /// Notifications at a time, those in pauses included; they take none of the places of other pushes.
    private static let notificationLimit = 10_000

    /// - Parameters:
    ///   - directory: the apps.
    ///   - credentials: what their requests carry.
    ///   - answerTimeout: how long a provider may take to answer.
    ///   - plainLimit: requests under way to a server without TLS.
    ///   - seed: spreads the tries of pushes that failed together.
    ///   - log: what became of pushes.
    package init(
        _ directory: PushDirectory, _ credentials: PushCredentials, answerTimeout: Duration, plainLimit: Int,
        seed: UInt64, log: Log
    ) {
        self.directory = directory
        self.credentials = credentials
        self.answerTimeout = answerTimeout
        servers = PushServers(directory, plainLimit: plainLimit)
        journal = PushJournal(log)
        chances = ChanceGenerator(seed: seed)
    }

    /// The actions since the last call, in their order; what the array held is dropped, and its room used again.
    package func takeActions(into taken: inout [Action]) {
        taken.removeAll(keepingCapacity: true)
        swap(&taken, &actions)
    }

    /// Each push's last word, in the order of their ends; none for pushes that were cancelled. To be asked until it says `nil`.
    package func nextOutcome() -> (id: PushID, outcome: PushOutcome)? {
        while firstSettled < settled.count {
            firstSettled += 1
            if let next = settled[firstSettled - 1] { return next }
        }
        settled.removeAll(keepingCapacity: true)
        firstSettled = 0
        return nil
    }

    package var hasOutcomes: Bool { firstSettled < settled.count }

    /// When ``timePassed(now:)`` is to be told.
    package var nextDeadline: Instant? {
        var deadline = pauses.nextDeadline ?? .distantFuture
        for server in servers.all { deadline = min(deadline, server.queue.nextProbe ?? .distantFuture) }
        if keepsCredentials { deadline = min(deadline, credentials.nextRenewal ?? .distantFuture) }
        return deadline == .distantFuture ? nil : deadline
    }

    /// Notifications that are taken now.
    package var notificationRoom: Int { max(0, Self.notificationLimit - notifications) }

    /// Counters, and gauges as they stand.
    package var figures: CounterSet {
        var figures = journal.figures
        figures.set(.pushQueue, to: servers.all.reduce(0) { $0 + $1.waiting })
        figures.set(.pushesInFlight, to: servers.all.reduce(0) { $0 + $1.queue.inFlight })
        return figures
    }

    /// How each app's pushes fare, in the order of the directory.
    package var reports: [(app: PushApp, report: PushAppReport)] { servers.reports }

    // MARK: What happened

    /// Credentials that have to be fetched are fetched from now on ahead of their end.
    package func started(now: Moment) {
        keepsCredentials = true
        renewCredentials(now: now)
    }

    package func pushAsked(_ request: PushRequest, now: Moment) {
        guard let app = directory.app(for: request.token) else {
            journal.figures.count(.pushWithoutApp)
            return refuse(request, .noApp)
        }
        guard request.isNotification ? notificationRoom > 0 : entries.count - notifications < servers.limit else {
            servers.server(of: app).standing.report.count(.retry(after: nil), at: now.date)
            return refuse(request, .queueFull)
        }
        let origin = servers.server(of: app).app.origin(of: request.token)
        let entry = Entry(
            request, to: servers.server(of: app, at: origin), at: origin, slot: freeSlots.popLast() ?? slots.count,
            PushAttempt(
                pauses: request.pauses, deadline: now.instant + (request.deadline - now.date),
                answerTimeout: answerTimeout))
        entries[request.id] = entry
        if entry.slot == slots.count { slots.append(entry) } else { slots[entry.slot] = entry }
        if entry.isNotification { notifications += 1 }
        entry.server.pushes += 1
        tell(request.id, .queued(app: entry.server.app.name))
        enqueue(entry, now: now)
    }

    private func refuse(_ request: PushRequest, _ refusal: PushRefusal) {
        tell(request.id, .refused(refusal))
        tell(request.id, .finished(.retry(after: nil)))
        settled.append((request.id, .retry(after: nil)))
    }

    /// The push is taken back: the call is over, or its device has come.
    package func cancelled(_ id: PushID, now: Moment) {
        guard let entry = entries[id] else {
            for index in settled.indices where settled[index]?.id == id { settled[index] = nil }
            return
        }
        forget(entry)
        entry.server.standing.report.withdrawn += 1
        tell(id, .withdrawn)
        if entry.attempt.state == .sent { actions.append(.cancelRequest(slot: entry.slot)) }
        entry.attempt.cancelled()
        pauses.cancel(entry.pause)
        leave(entry, .unknown, now: now)
        leaveGate(entry, now: now)
    }

    /// `life`: where whoever gave it says how long it lasts.
    package func credentialMade(
        _ order: PushCredentials.Order, _ value: String, life: Duration? = nil, now: Moment
    ) {
        credentials.made(order, value, life: life, now: now)
        for entry in takeWaiting(for: order) { proceed(entry, with: value, now: now) }
    }

    /// `problem`: in words for the operator, where it says more than the outcome.
    package func credentialFailed(
        _ order: PushCredentials.Order, _ outcome: PushOutcome, problem: String? = nil, now: Moment
    ) {
        credentials.failed(order, outcome, problem: problem, now: now.instant)
        for entry in takeWaiting(for: order) { giveUp(entry, outcome, problem: problem, now: now) }
    }

    private func takeWaiting(for order: PushCredentials.Order) -> [Entry] {
        let waiting = withoutCredential.filter { $0.order == order && $0.entry.hasPlace }
        withoutCredential.removeAll { $0.order == order }
        return waiting.map(\.entry)
    }

    /// The request is on its way.
    package func requestLeft(_ slot: Int) {
        guard slots.indices.contains(slot), let entry = slots[slot] else { return }
        entry.server.standing.report.sent += 1
        tell(entry.request.id, .sent)
    }

    /// There is no request that could be sent.
    package func requestFailed(_ slot: Int, _ outcome: PushOutcome, now: Moment) {
        guard slots.indices.contains(slot), let entry = slots[slot] else { return }
        abandon(entry, outcome, now: now)
    }

    /// The provider has answered after that time.
    package func answered(
        _ slot: Int, of id: PushID, with answer: ProviderAnswer, after time: Duration, now: Moment
    ) {
        guard let entry = entry(slot, id) else { return }
        journal.figures.observe(.pushAnswer, time)
        let standing = entry.server.standing
        let outcome = entry.server.app.outcome(of: answer, isProven: standing.isProven, now: now.date)
            .redacted(of: entry.request.token)
        if outcome.isAccepted { standing.isProven = true }
        tell(id, .answered(outcome, status: answer.status, problem: nil))
        ended(entry, outcome, isFailure: answer.isFailureOfProvider, now: now)
    }

    /// The provider was not reached, or did not answer; `words` for the operator.
    package func unanswered(_ slot: Int, of id: PushID, _ outcome: PushOutcome, _ words: String, now: Moment) {
        guard let entry = entry(slot, id) else { return }
        journal.notReached(entry.server.app, words, now: now.instant)
        let outcome = outcome.redacted(of: entry.request.token)
        tell(id, .answered(outcome, status: nil, problem: words))
        ended(entry, outcome, isFailure: true, now: now)
    }

    package func awaitsAnswer(_ slot: Int, of id: PushID) -> Bool { entry(slot, id) != nil }

    private func entry(_ slot: Int, _ id: PushID) -> Entry? {
        guard slots.indices.contains(slot), let entry = slots[slot], entry.request.id == id else { return nil }
        return entry
    }

    private func ended(_ entry: Entry, _ outcome: PushOutcome, isFailure: Bool, now: Moment) {
        let health: PushQueue.Health = !isFailure ? .answered : entry.attempt.tries > 1 ? .failedAgain : .failed
        leave(entry, health, now: now)
        follow(answer(outcome, to: entry, now: now), entry, now: now)
    }

    package func timePassed(now: Moment) {
        while let id = pauses.popExpired(now: now.instant) {
            guard let entry = entries[id] else { continue }
            entry.pause = .none
            follow(entry.attempt.deadlineReached(now: now.instant), entry, now: now)
        }
        for server in servers.all { drain(server, now: now) }
        renewCredentials(now: now)
    }

    private func renewCredentials(now: Moment) {
        guard keepsCredentials else { return }
        for order in credentials.renewals(now: now.instant) { actions.append(.makeCredential(order)) }
    }

    /// No push is known any more, and no answer counts.
    package func stopped() {
        entries = [:]
        slots = []
        freeSlots = []
        withoutCredential = []
    }

    // MARK: One try

    private func follow(_ step: PushAttempt.Action, _ entry: Entry, now: Moment) {
        switch step {
        case .none: break
        case .enqueue: enqueue(entry, now: now)
        case .renewCredentialAndEnqueue:
            credentials.refused(entry.credential, by: entry.server.app.id, now: now.instant)
            enqueue(entry, now: now)
        case .send(let end): transmit(entry, until: end, now: now)
        case .arm(let instant):
            entry.server.standing.report.retried += 1
            entry.pause = pauses.schedule(entry.request.id, at: instant)
        case .finish(let outcome): finish(entry, outcome, now: now)
        }
    }

    private func answer(_ outcome: PushOutcome, to entry: Entry, now: Moment) -> PushAttempt.Action {
        entry.attempt.answered(outcome, chance: .random(in: 0..<1, using: &chances), now: now.instant)
    }

    private func transmit(_ entry: Entry, until end: Instant, now: Moment) {
        switch render(entry, now: now) {
        case .impossible(let outcome): abandon(entry, outcome, now: now)
        case .request(let request):
            actions.append(
                .send(
                    Transmission(
                        slot: entry.slot, id: entry.request.id, app: entry.server.app.id, server: entry.server.number,
                        request: request, credential: entry.credential, end: end)))
        }
    }

    private func render(_ entry: Entry, now: Moment) -> PushRendering {
        let (app, device) = (entry.server.app, entry.request.device)
        return app.render(
            entry.request, deviceCode: app.asksForDeviceCode && device != .nobody ? deviceCode(device) : nil,
            now: now.date)
    }

    private func abandon(_ entry: Entry, _ outcome: PushOutcome, now: Moment) {
        leave(entry, .unknown, now: now)
        follow(answer(outcome, to: entry, now: now), entry, now: now)
    }

    private func finish(_ entry: Entry, _ outcome: PushOutcome, now: Moment) {
        forget(entry)
        tell(entry.request.id, .finished(outcome))
        entry.server.standing.report.count(outcome, at: now.date)
        journal.finished(
            outcome, of: entry.server.app, token: entry.request.token, tries: entry.attempt.tries, now: now.instant,
            payload: redactedPayload(of: entry, now: now))
        settled.append((entry.request.id, outcome))
    }

    private func redactedPayload(of entry: Entry, now: Moment) -> String {
        switch render(entry, now: now) {
        case .request(let request): RedactedPayload.text(of: request.body)
        case .impossible: "none"
        }
    }

    private func forget(_ entry: Entry) {
        entries[entry.request.id] = nil
        slots[entry.slot] = nil
        freeSlots.append(entry.slot)
        entry.server.pushes -= 1
        if entry.isNotification { notifications -= 1 }
    }

    private func tell(_ id: PushID, _ step: PushStep) { actions.append(.tell(id, step)) }

    // MARK: Turns

    private func enqueue(_ entry: Entry, now: Moment) {
        if entry.isNotification {
            guard entry.server.gate.arrived(entry.request.id) else { return }
            entry.isInGate = true
        }
        enterQueue(entry, now: now)
    }

    private func enterQueue(_ entry: Entry, now: Moment) {
        switch entry.server.queue.arrived(entry.request.id, now: now.instant) {
        case .start: begin(entry, now: now)
        case .wait: break
        case .refuse:
            tell(entry.request.id, .refused(.queueFull))
            entry.attempt.cancelled()
            finish(entry, .retry(after: nil), now: now)
            leaveGate(entry, now: now)
        }
    }

    /// The push has its place.
    private func begin(_ entry: Entry, now: Moment) {
        entry.hasPlace = true
        switch credentials.wanted(by: entry.server.app.id, at: entry.origin, now: now) {
        case .ready(let value, let renewal):
            if let renewal { actions.append(.makeCredential(renewal)) }
            proceed(entry, with: value, now: now)
        case .later(let order, let isNew):
            withoutCredential.append((entry, order))
            if isNew { actions.append(.makeCredential(order)) }
        case .none(let outcome, let problem): giveUp(entry, outcome, problem: problem, now: now)
        }
    }

    private func proceed(_ entry: Entry, with credential: String?, now: Moment) {
        entry.credential = credential
        follow(entry.attempt.turnCame(now: now.instant), entry, now: now)
        // Too late: nothing was sent.
        if entry.attempt.state == .ended { leave(entry, .unknown, now: now) }
    }

    /// There is no credential.
    private func giveUp(_ entry: Entry, _ outcome: PushOutcome, problem: String?, now: Moment) {
        if let problem { tell(entry.request.id, .answered(outcome, status: nil, problem: problem)) }
        abandon(entry, outcome, now: now)
    }

    /// Gives the place back, if there is one, and lets others go.
    private func leave(_ entry: Entry, _ health: PushQueue.Health, now: Moment) {
        guard entry.hasPlace else { return }
        entry.hasPlace = false
        entry.server.queue.left(health, now: now.instant)
        drain(entry.server, now: now)
        leaveGate(entry, now: now)
    }

    /// Lets the next notifications into the queue.
    private func leaveGate(_ entry: Entry, now: Moment) {
        guard entry.isInGate else { return }
        entry.isInGate = false
        let server = entry.server
        server.gate.left()
        // One that cannot be sent after all leaves at once, in the middle of this.
        guard !server.isOpening else { return }
        server.isOpening = true
        while let id = server.gate.next() {
            guard let next = entries[id] else {
                server.gate.left()
                continue
            }
            next.isInGate = true
            enterQueue(next, now: now)
        }
        server.isOpening = false
    }

    private func drain(_ server: PushServer, now: Moment) {
        // A push that cannot be sent after all leaves at once, in the middle of this; the loop here goes on with the next.
        guard !server.isDraining else { return }
        server.isDraining = true
        while let id = server.queue.next(now: now.instant) {
            if let entry = entries[id] {
                begin(entry, now: now)
            } else {
                server.queue.left(.unknown, now: now.instant)
            }
        }
        server.isDraining = false
    }
}

extension PushRequest {
    fileprivate var pauses: PushAttempt.Pauses {
        switch message {
        case .incomingCall, .silent: .call
        case .missedCalls: .missedCalls
        case .notification: .notification
        }
    }
}

/// Numbers for jitter, without a system call for each (SplitMix64): nothing is guarded by them.
private struct ChanceGenerator: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }
}
