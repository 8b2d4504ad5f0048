package import Addressing
package import Bytes
package import Telemetry
package import Timekeeping

/// Dispatches pushes: chooses the server of each, its turn, its contents and its retries, and determines its outcome.
///
/// Pure: reads no clock, sends nothing. Report events to it, run the returned actions, fetch the outcomes, and call it
/// again at ``nextDeadline``.
package final class PushDispatcher {
    package enum Action: Sendable {
        /// ``credentialMade(_:_:life:now:)`` or ``credentialFailed(_:_:problem:now:)`` must be called, now or later.
        case makeCredential(PushCredentials.Order)
        /// ``requestLeft(_:)`` or ``requestFailed(_:_:now:)`` must be called immediately; after the former, an answer.
        case send(Transmission)
        case tell(PushID, PushStep)
    }

    /// One request, and its destination.
    package struct Transmission: Sendable {
        /// The slot of its push until the answer arrives. Afterwards another push may use it.
        package let slot: Int
        package let id: PushID
        package let app: PushApp.ID
        /// The number of a server from a token; `nil` for the app's own server.
        package let server: Int?
        package let request: ProviderRequest
        /// The value of `authorization`.
        package let credential: String?
        /// An answer after it is ignored.
        package let end: Instant
    }

    /// One active push.
    final class Entry {
        let request: PushRequest
        let server: PushServer
        /// The server of the token, if tokens name servers.
        let origin: String?
        let slot: Int
        var attempt: PushAttempt
        /// Its queue has released it.
        var hasPlace = false
        let isNotification: Bool
        /// It passed its server's gate for notifications, and is still in the queue.
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

    /// The code by which an app names its device to the daemon, by the device's number.
    package var deviceCode: (DeviceID) -> ByteString? = { _ in nil }

    private let directory: PushDirectory
    private let answerTimeout: Duration
    var credentials: PushCredentials
    private var servers: PushServers
    var journal: PushJournal
    var chances: ChanceGenerator

    var actions: [Action] = []
    var entries: [PushID: Entry] = [:]
    var slots: [Entry?] = []
    var freeSlots: [Int] = []
    /// How many of the entries are notifications.
    var notifications = 0
    /// Released pushes whose credential is being made.
    var withoutCredential: [(entry: Entry, order: PushCredentials.Order)] = []
    var pauses = DeadlineQueue<PushID>()
    private var keepsCredentials = false
    /// Outcomes that are not fetched yet.
    var settled: [(id: PushID, outcome: PushOutcome)] = []
    private var firstSettled = 0

    /// The limit of simultaneous notifications, including those between two tries. They take no places of other pushes.
    private static let notificationLimit = 10_000

    /// - Parameters:
    ///   - directory: the apps.
    ///   - credentials: the credentials of their requests.
    ///   - answerTimeout: the time limit for a provider's answer.
    ///   - plainLimit: the limit of parallel requests to a server without TLS.
    ///   - seed: spreads the retries of pushes that failed together.
    ///   - log: receives the outcomes of pushes.
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

    /// The actions since the last call, in their order. The previous contents of the array are dropped, and its memory
    /// is reused.
    package func takeActions(into taken: inout [Action]) {
        taken.removeAll(keepingCapacity: true)
        swap(&taken, &actions)
    }

    /// The next ended push and its outcome, in the order of the ends. Withdrawn pushes have none. Call until it returns
    /// `nil`.
    package func nextOutcome() -> (id: PushID, outcome: PushOutcome)? {
        if firstSettled < settled.count {
            firstSettled += 1
            return settled[firstSettled - 1]
        }
        settled.removeAll(keepingCapacity: true)
        firstSettled = 0
        return nil
    }

    package var hasOutcomes: Bool { firstSettled < settled.count }

    /// When to call ``timePassed(now:)``.
    package var nextDeadline: Instant? {
        var deadline = pauses.nextDeadline ?? .distantFuture
        for server in servers.all { deadline = min(deadline, server.queue.nextProbe ?? .distantFuture) }
        if keepsCredentials { deadline = min(deadline, credentials.nextRenewal ?? .distantFuture) }
        return deadline == .distantFuture ? nil : deadline
    }

    /// The number of notifications that are accepted now.
    package var notificationRoom: Int { max(0, Self.notificationLimit - notifications) }

    /// Counters, and the current values of gauges.
    package var figures: CounterSet {
        var figures = journal.figures
        figures.set(.pushQueue, to: servers.all.reduce(0) { $0 + $1.waiting })
        figures.set(.pushesInFlight, to: servers.all.reduce(0) { $0 + $1.queue.inFlight })
        return figures
    }

    /// The push statistics of each app, in the order of the directory.
    package var reports: [(app: PushApp, report: PushAppReport)] { servers.reports }

    // MARK: What happened

    /// From now on, credentials are fetched before the old ones expire.
    package func started(now: Moment) {
        keepsCredentials = true
        renewCredentials(now: now)
    }

    /// Sends a push, if its token belongs to an app and the queue has room.
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

    /// Withdraws the push: the call is over, or its device has registered. A request in flight stays until the provider
    /// answers, and is not retried. A push that has ended keeps its outcome.
    package func cancelled(_ id: PushID, now: Moment) {
        guard let entry = entries[id], entry.attempt.cancelled() else { return }
        forget(entry)
        entry.server.standing.report.withdrawn += 1
        tell(id, .withdrawn)
        pauses.cancel(entry.pause)
        leave(entry, .unknown, now: now)
        leaveGate(entry, now: now)
    }

    /// ``nextDeadline`` has come.
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

    func forget(_ entry: Entry) {
        entries[entry.request.id] = nil
        slots[entry.slot] = nil
        freeSlots.append(entry.slot)
        entry.server.pushes -= 1
        if entry.isNotification { notifications -= 1 }
    }

    func tell(_ id: PushID, _ step: PushStep) { actions.append(.tell(id, step)) }

    /// Drops all pushes and ignores later answers.
    package func stopped() {
        entries = [:]
        slots = []
        freeSlots = []
        withoutCredential = []
    }
}
