package import Addressing
package import Bytes
package import Telemetry
package import Timekeeping

/// Sends pushes to providers: chooses the server, the time, the content and the retries of each push, and determines
/// the outcome.
///
/// The dispatcher does no input or output: it reads no clock and sends no requests. The user of a ``PushDispatcher``
/// reports events, executes the returned actions, takes the outcomes, and reports the time at ``nextDeadline``.
package final class PushDispatcher {
    package enum Action: Sendable {
        /// Make a credential, and report the result as ``Event/credentialMade(_:_:life:)`` or
        /// ``Event/credentialFailed(_:_:problem:)``, immediately or later.
        case makeCredential(PushCredentials.Order)
        /// Send a request, and report the result as ``Event/answered(_:_:after:)``, ``Event/unanswered(_:_:_:)`` or
        /// ``Event/notSent(_:_:)``, immediately or later.
        case send(Transmission)
        case tell(PushID, PushStep)
    }

    /// The result of an action, reported by the code that executed the action.
    package enum Event: Sendable {
        /// The push provider has answered the push request. The duration `after` is the time between the request and
        /// the answer.
        case answered(Transmission, ProviderAnswer, after: Duration)
        /// The push provider could not be reached, or did not answer. The text tells the operator why the push provider
        /// did not answer.
        case unanswered(Transmission, PushOutcome, String)
        /// The push request was not sent, because the daemon could not build the request.
        case notSent(Transmission, PushOutcome)
        /// A credential was made; `life` is the lifetime that the issuer reported, if any.
        case credentialMade(PushCredentials.Order, String, life: Duration? = nil)
        /// A credential could not be made; `problem` has the reason if the outcome has none.
        case credentialFailed(PushCredentials.Order, PushOutcome, problem: String? = nil)
    }

    /// One try of a push: the request and its destination. ``Transmission`` is a class, so that functions can pass it
    /// on without a copy.
    package final class Transmission: Sendable {
        package let push: PushRequest
        /// The index of the push's slot. After the provider's answer, another push may get the slot.
        let slot: Int
        package let app: PushApp.ID
        /// The number of the server that the token names; `nil` for the app's own server.
        package let server: Int?
        package let request: ProviderRequest
        /// The value of the header field `authorization`.
        package let credential: String?
        /// The time limit for the push provider's answer; the dispatcher ignores a later answer.
        package let end: Instant

        init(_ entry: Entry, _ request: ProviderRequest, until end: Instant) {
            push = entry.request
            slot = entry.slot
            app = entry.server.app.id
            server = entry.server.number
            self.request = request
            credential = entry.credential
            self.end = end
        }
    }

    /// A push that has not ended yet.
    final class Entry {
        let request: PushRequest
        let server: PushServer
        /// The server that the push token names; `nil` if the app has one server for all push tokens.
        let origin: String?
        let slot: Int
        var attempt: PushRetries
        /// Whether the queue has started the push. A started push is one of the parallel requests.
        var hasPlace = false
        let isNotification: Bool
        /// Whether the push is a notification that its server's ``NotificationGate`` counts in the queue.
        var isInGate = false
        /// Whether the server refused a larger payload, so that the push has the smallest payload.
        var isSmallest = false
        var credential: String?
        var pause = DeadlineID.none

        init(_ request: PushRequest, to server: PushServer, at origin: String?, slot: Int, _ attempt: PushRetries) {
            self.request = request
            self.server = server
            self.origin = origin
            self.slot = slot
            self.attempt = attempt
            isNotification = request.isNotification
        }
    }

    package let directory: PushDirectory
    /// Returns the code that names a device in pushes and in the app's reports.
    let deviceCode: (DeviceID) -> ByteString?
    private let answerTimeout: Duration
    private let notificationLimit: Int
    var credentials: PushCredentials
    private var servers: PushServers
    var journal: PushLog
    var appMonitor = PushAppMonitor()
    var chances: ChanceGenerator

    var actions: [Action] = []
    var entries: [PushID: Entry] = [:]
    var slots: [Entry?] = []
    var freeSlots: [Int] = []
    /// The number of notifications among the active pushes.
    var notifications = 0
    /// The pushes that have left the queue and wait for their credential.
    var withoutCredential: [(entry: Entry, order: PushCredentials.Order)] = []
    var pauses = DeadlineQueue<PushID>()
    var limited = LimitedEndpoints()
    private var keepsCredentials = false
    /// The paused providers, to which the dispatcher sends no requests.
    package internal(set) var paused: Set<PushProvider> = []
    /// The outcomes that ``nextOutcome()`` has not returned yet.
    var settled: [(id: PushID, outcome: PushOutcome)] = []
    private var firstSettled = 0
    /// The time at which ``timePassed(now:)`` has work, as computed after the last event.
    private var deadline: Instant?
    private var isDeadlineKnown = true

    /// Creates a dispatcher that logs the outcomes of pushes. The function `deviceCode` returns the code that names a
    /// device in pushes.
    package init(_ setup: DispatchSetup, deviceCode: @escaping (DeviceID) -> ByteString? = { _ in nil }, log: Log) {
        directory = setup.directory
        credentials = setup.credentials
        answerTimeout = setup.answerTimeout
        notificationLimit = setup.notificationLimit
        self.deviceCode = deviceCode
        servers = PushServers(setup.directory, plainLimit: setup.plainLimit)
        journal = PushLog(log)
        chances = ChanceGenerator(seed: setup.seed)
    }

    /// Moves all pending actions, in order, into the array `taken`. The old content of the array is removed, but its
    /// memory is reused.
    package func takeActions(into taken: inout [Action]) {
        taken.removeAll(keepingCapacity: true)
        swap(&taken, &actions)
    }

    /// Returns the next ended push and its outcome, in the order in which the pushes ended; `nil` if no further push
    /// has ended. A push that the engine withdrew has no outcome.
    package func nextOutcome() -> (id: PushID, outcome: PushOutcome)? {
        if firstSettled < settled.count {
            firstSettled += 1
            return settled[firstSettled - 1]
        }
        settled.removeAll(keepingCapacity: true)
        firstSettled = 0
        return nil
    }

    /// Starts or stops the collection of changes in push apps, such as refused credentials.
    package func reportsAppChanges(_ isOn: Bool) { appMonitor.isOn = isOn }

    /// Removes and returns the collected changes of push apps, oldest first.
    package func takeAppChanges() -> [PushAppChange] { appMonitor.take() }

    /// The statistics of a push app for all its servers together.
    func standing(of app: PushApp.ID) -> PushServer.Standing { servers.server(of: app).standing }
    package var hasOutcomes: Bool { firstSettled < settled.count }

    /// The time at which ``timePassed(now:)`` has work; `nil` if no work will be due. The value is read very often, so
    /// it is computed only once after an event.
    package var nextDeadline: Instant? {
        guard !isDeadlineKnown else { return deadline }
        var next = servers.nextProbe
        if let pause = pauses.nextDeadline { next = min(next, pause) }
        if keepsCredentials, let renewal = credentials.nextRenewal { next = min(next, renewal) }
        deadline = next == .distantFuture ? nil : next
        isDeadlineKnown = true
        return deadline
    }

    func deadlineMayChange() { isDeadlineKnown = false }

    /// The number of notifications that the dispatcher would still accept now.
    package var notificationRoom: Int { max(0, notificationLimit - notifications) }

    /// The counters, and the current values of the gauges.
    package var figures: CounterSet {
        var figures = journal.figures
        figures.set(.pushQueue, to: servers.all.reduce(0) { $0 + $1.waiting })
        figures.set(.pushesInFlight, to: servers.all.reduce(0) { $0 + $1.queue.inFlight })
        return figures
    }

    /// The push statistics of each app, in the order of the list of apps.
    package var reports: [(app: PushApp, report: PushAppReport)] { servers.reports }

    // MARK: What happened

    /// Starts to renew credentials before they expire, so that no push has to wait for a credential.
    package func started(now: Moment) {
        keepsCredentials = true
        renewCredentials(now: now)
        deadlineMayChange()
    }

    /// Replaces the keys from which credentials are made. If a push waits for a credential of a removed key, it now
    /// waits for a credential of the new key.
    package func credentialsChanged(_ changed: PushCredentials, now: Moment) {
        credentials.changed(to: changed)
        askAgain(now: now)
        renewCredentials(now: now)
        deadlineMayChange()
    }

    package func happened(_ event: Event, now: Moment) {
        switch event {
        case .answered(let transmission, let answer, let time): answered(transmission, answer, after: time, now: now)
        case .unanswered(let transmission, let outcome, let words): unanswered(transmission, outcome, words, now: now)
        case .notSent(let transmission, let outcome): notSent(transmission, outcome, now: now)
        case .credentialMade(let order, let value, let life): credentialMade(order, value, life: life, now: now)
        case .credentialFailed(let order, let outcome, let problem):
            credentialFailed(order, outcome, problem: problem, now: now)
        }
        deadlineMayChange()
    }

    /// Sends a push, if its token belongs to an app in the settings and the queue has room.
    package func pushAsked(_ request: PushRequest, now: Moment) {
        deadlineMayChange()
        guard let app = directory.app(for: request.token) else {
            journal.figures.count(.pushWithoutApp)
            return refuse(request, .noApp)
        }
        guard !paused.contains(request.token.provider) else { return refuse(request, .paused) }
        guard request.isNotification ? notificationRoom > 0 : entries.count - notifications < servers.limit else {
            servers.server(of: app).standing.report.count(.retry(after: nil), at: now.date)
            return refuse(request, .queueFull)
        }
        let origin = servers.server(of: app).app.origin(of: request.token)
        guard let server = servers.server(of: app, at: origin), server.chosenHost == nil || server.pushes < server.limit
        else { return refuse(request, toStrangerOf: app, origin, now: now) }
        let entry = Entry(
            request, to: server, at: origin, slot: freeSlots.popLast() ?? slots.count,
            PushRetries(
                pauses: request.pauses, deadline: now.instant + (request.deadline - now.date),
                answerTimeout: answerTimeout))
        entries[request.id] = entry
        if entry.slot == slots.count { slots.append(entry) } else { slots[entry.slot] = entry }
        if entry.isNotification { notifications += 1 }
        entry.server.pushes += 1
        tell(request.id, .queued(app: entry.server.app.name))
        if server.chosenHost != nil, let end = limited.end(of: request.token.prid, now: now.instant) {
            return delay(entry, until: end, now: now)
        }
        arrive(entry, now: now)
    }

    func refuse(_ request: PushRequest, _ refusal: PushRefusal) {
        tell(request.id, .refused(refusal))
        tell(request.id, .finished(.retry(after: nil)))
        settled.append((request.id, .retry(after: nil)))
    }

    /// Withdraws a push, because the call has ended or the device has registered. A request in flight still gets its
    /// answer, but is not retried.
    package func cancelled(_ id: PushID, now: Moment) {
        guard let entry = entries[id], entry.attempt.cancelled() else { return }
        forget(entry)
        entry.server.standing.report.withdrawn += 1
        tell(id, .withdrawn)
        pauses.cancel(entry.pause)
        leave(entry, .unknown, now: now)
        leaveGate(entry, now: now)
        deadlineMayChange()
    }

    /// Does the work that is due at ``nextDeadline``: starts tries whose pause has ended, and renews credentials.
    package func timePassed(now: Moment) {
        while let id = pauses.popExpired(now: now.instant) {
            guard let entry = entries[id] else { continue }
            entry.pause = .none
            follow(entry.attempt.deadlineReached(now: now.instant), entry, now: now)
        }
        for server in servers.all { drain(server, now: now) }
        renewCredentials(now: now)
        deadlineMayChange()
    }

    private func renewCredentials(now: Moment) {
        guard keepsCredentials else { return }
        for order in credentials.renewals(now: now.instant) { actions.append(.makeCredential(order)) }
    }

    func forget(_ entry: Entry) {
        entries[entry.request.id] = nil
        slots[entry.slot] = nil
        freeSlots.append(entry.slot)
        entry.server.pushes -= 1
        if entry.isNotification { notifications -= 1 }
    }

    func tell(_ id: PushID, _ step: PushStep) { actions.append(.tell(id, step)) }
}
