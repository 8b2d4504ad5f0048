import Addressing
import Bytes
import Collections
import LocationService
package import Persistence
package import ProxyCore
import ProxyPolicy
package import PushDelivery
package import PushPlanning
import PushSending
package import Reactor
import Registration
import Routing
import SIPGrammar
import SIPMessage
package import Telemetry
import Timekeeping

/// Owns the engine, and so the state of all AORs in the shard. Only the shard's thread uses the engine.
///
/// Events come from the loop (datagrams, stream messages, commits, pushes, look-ups, the timer) and through the
/// ``ShardDoor``. Each event enters the engine, and ``runActions()`` runs the resulting actions. An event that an
/// action causes waits until all actions are done, because no event may enter the engine while actions run.
package actor ProxyShard: LoopActor {
    /// The actor holds the loop, because `unownedExecutor` does not keep the loop alive.
    package nonisolated let loop: EventLoop
    package nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

    let engine: ProxyEngine
    var reader = MessageReader()
    /// The UDP sockets, with the number of the listener as the index.
    var sockets: [UDPSocket?] = []
    let streams: StreamFlows
    let services: ShardServices
    let log: Log
    var timer: LoopTimer?
    /// The services and operators that wait for an answer.
    var waiters = ShardWaiters()
    /// Whether the daemon refuses new calls because it is about to stop; any thread can read the value.
    nonisolated let isDraining = Locked(false)
    /// The engine's actions that the shard is running; the array is kept to reuse its memory.
    private var actions: [ProxyAction] = []
    private var isRunningActions = false
    /// Whether the engine answered the last test request: see ``answersItself()``.
    private var isAnswered = false
    var load = LoadMeasurement()
    private var questions: UInt64 = 0
    /// Copies messages and pushes for traces; `nil` while no trace runs, so that a message costs only one comparison.
    var taps: MessageTaps?
    /// Whether the settings name a receiver of events.
    private var reportsEvents = false
    /// Receives the changes of the timeline; `nil` if no part of the daemon needs the changes.
    private var observer: (([TimelineChange]) -> Void)?
    /// Gets the tables that operators may have changed at another node.
    private var tablesChanged: (Set<OperatorTable>) -> Void = { _ in }
    /// Tells the services whether this node has the duties that one node does for all nodes.
    private var dutiesChanged: (Bool) -> Void = { _ in }
    /// The events that occurred while actions ran, in order; they enter the engine after the actions.
    private var waiting: [Arrival] = []
    /// Notices that the process stood still; `nil` without a cluster.
    var standstill: Standstill?
    private var pulse: LoopTimer?
    /// The events that wait until the node knows what other nodes have taken over, in order.
    private var late: [Arrival] = []

    package init(loop: EventLoop, engine: sending ProxyEngine, streams: StreamFlows, services: ShardServices, log: Log)
    {
        self.loop = loop
        self.engine = engine
        self.streams = streams
        self.services = services
        self.log = log
    }

    /// Copies messages and pushes to `taps` from now on; `nil` ends the copies.
    package func copies(to taps: MessageTaps?) {
        self.taps = taps
        engine.reportsEnds(taps?.spans != nil)
    }

    /// Switches the events for the operator's receiver on or off.
    package func reportsEvents(_ isOn: Bool) {
        reportsEvents = isOn
        engine.reportsEvents(isOn)
    }

    /// Sets the observer that receives changes of the push timeline. The observer is called on the event loop's thread.
    package func shows(timeline observer: @escaping ([TimelineChange]) -> Void) { self.observer = observer }

    // MARK: Events

    /// The kind of a message on a stream; the kind decides how the connection continues.
    enum StreamMessage {
        case request
        case other
        /// The message has no valid length, so the start of the next message is unknown and the connection must be
        /// closed (T2).
        case fatal
    }

    /// Handles one whole message of a stream, and runs all actions that the message causes. The reader of the stream
    /// can see how much output waits before it reads the next message.
    ///
    /// - Parameters:
    ///   - bytes: the message.
    ///   - head: the parts of the message that are already parsed.
    ///   - isCut: whether the transport marks the end of the message, so that Content-Length is not needed.
    ///   - flow: the source of the message.
    /// - Returns: the kind of the SIP message.
    func streamMessageReceived(
        _ bytes: Span<UInt8>, head: MessageHead? = nil, isCut: Bool = false, on flow: Flow
    ) -> StreamMessage {
        taps?.message(bytes, isIncoming: true, on: flow, local: streams.local(of: flow))
        let message = reader.read(bytes, isStream: !isCut, head: head)
        let now = loop.moment
        if standstill != nil { turned(now: now.instant) }
        load.streamReceived(now: now.instant)
        received(message, on: flow, now: now)
        runActions()
        switch message {
        case .request: return .request
        case .response: return .other
        case .unusable(let unusable): return unusable.reason == .contentLength ? .fatal : .other
        }
    }

    /// Tests the engine with an OPTIONS request, which the engine parses, checks and answers like a request of a peer.
    ///
    /// - Returns: whether the engine answered the test request.
    package func answersItself() -> Bool {
        questions &+= 1
        // No socket has the test request's listener number, so the answer never reaches the network.
        let flow = Flow(transport: .udp, listener: .max, connection: 0, remote: Endpoint(.anyV4, 9))
        let domain = engine.settings.domains.first?.string ?? "sippushd.invalid"
        let question = """
            OPTIONS sip:\(domain) SIP/2.0\r
            Via: SIP/2.0/UDP sippushd.invalid;branch=z9hG4bKself\(questions)\r
            Max-Forwards: 0\r
            From: <sip:sippushd.invalid>;tag=self\r
            To: <sip:\(domain)>\r
            Call-ID: self\(questions)\r
            CSeq: 1 OPTIONS\r
            Content-Length: 0\r
            \r

            """
        isAnswered = false
        received(reader.read(Array(question.utf8).span, isStream: false), on: flow, now: loop.moment)
        runActions()
        return isAnswered
    }

    /// The seconds after which an HTTP client may try again; `nil` if the daemon serves the request.
    package func refusesService() -> Int? { engine.refusesService(now: loop.now) }

    func isTrusted(_ flow: Flow) -> Bool { engine.isTrusted(flow) }

    func namesProved(_ names: [String], on flow: Flow) -> Bool { engine.namesProved(names, on: flow) }

    func received(_ message: ReadMessage, on flow: Flow, now: Moment) {
        switch message {
        case .request(let request): engine.requestReceived(request, on: flow, now: now)
        case .response(let response): engine.responseReceived(response, on: flow, now: now)
        case .unusable(let unusable): engine.unusableReceived(unusable, on: flow, now: now)
        }
    }

    func deadlineReached() {
        let now = loop.moment
        if standstill != nil {
            turned(now: now.instant)
            // The timers of calls that others have taken over must not fire.
            if isBehind { return }
        }
        engine.deadlineReached(now: now)
        runActions()
    }

    func sendFailed(on flow: Flow) {
        engine.sendFailed(on: flow, now: loop.moment)
        runActions()
    }

    func flowClosed(_ flow: Flow) {
        engine.flowClosed(flow, now: loop.moment)
        runActions()
    }

    /// Notifies the engine that a keep-alive arrived on a stream.
    func flowAlive(_ flow: Flow) {
        if standstill != nil { turned(now: loop.now) }
        engine.flowAlive(flow, now: loop.moment)
        runActions()
    }

    package func committed(_ results: [CommitResult]) { arrived(.commits(results)) }
    package func pushHappened(_ event: PushDispatcher.Event) { arrived(.push(event)) }

    /// An event from the store, the push service or the resolver, which can arrive while its action still runs.
    enum Arrival {
        case commits([CommitResult])
        case push(PushDispatcher.Event)
        case resolved(ResolutionTicket, [ResolvedHop])
        case user(UserTicket, UserAnswer)
        case registerCeiling(UInt32)
        case readCeiling(UInt32?)
        case keys(Result<[BearerKey], UserFault>, issuer: Int)
        case users(ReadTicket, StoredUsers?)
        case found(waitingFor: AddressOfRecord, [String])
        case nodes(NodeNews)
        case contacts(ContactSearch.Question, ContactPage?)

        var isNews: Bool { if case .nodes = self { true } else { false } }
    }

    private func arrived(_ arrival: Arrival) {
        if standstill != nil { turned(now: loop.now) }
        if isBehind, !arrival.isNews { return late.append(arrival) }
        guard !isRunningActions else { return waiting.append(arrival) }
        enter(with: arrival)
        runActions()
    }

    // MARK: Standstills

    var isBehind: Bool { standstill?.isBehind == true }

    /// Notes a turn of the loop. After a standstill, the store is asked what other nodes have taken over.
    func turned(now: Instant) {
        guard let (question, length) = standstill?.turned(now: now) else { return }
        log.warning(
            "this node stood still, so it first asks the database which calls other nodes have taken over",
            [
                .duration: .duration(length),
                .advice: "Look at the machine: a paused virtual machine, or a full processor.",
            ])
        engine.stoodStill()
        services.shared?.catchUp { [weak self] in self?.answered { $0.caughtUp(question) } }
    }

    private func caughtUp(_ question: UInt64) {
        guard standstill?.caughtUp(question) == true else { return }
        engine.caughtUp(now: loop.moment)
        for arrival in late { enter(with: arrival) }
        late = []
        runActions()
        deadlineReached()
    }

    private func startPulse() {
        standstill = Standstill(now: loop.now)
        pulse = try? LoopTimer(on: loop) { [weak self] in self?.onLoop(with: ()) { shard, _ in shard.pulsed() } }
        pulsed()
    }

    private func pulsed() {
        turned(now: loop.now)
        pulse?.arm(at: loop.now + Standstill.interval)
    }

    func enter(with arrival: Arrival) {
        switch arrival {
        case .commits(let results):
            let now = loop.moment
            for result in results {
                load.finished(result.ticket, now: now.instant, engine)
                engine.committed(result.ticket, succeeded: result.succeeded, now: now)
            }
        case .push(let event):
            taps?.pushHappened(event)
            engine.pushHappened(event, now: loop.moment)
        case .user(let ticket, let answer): engine.userAnswered(ticket, answer, now: loop.moment)
        case .keys(let keys, let issuer): engine.keysRead(keys, of: issuer, now: loop.moment)
        case .resolved(let ticket, let hops): engine.resolved(ticket, to: hops, now: loop.moment)
        case .registerCeiling(let ceiling): engine.registerCeilingStored(ceiling, now: loop.moment)
        case .readCeiling(let ceiling): engine.registerCeilingRead(ceiling, now: loop.moment)
        case .users(let ticket, let users): engine.usersRead(ticket, users, now: loop.moment)
        case .found(let aor, let names): engine.nodesFound(waitingFor: aor, names, now: loop.moment)
        case .nodes(.peers(let peers)): engine.nodesChanged(peers, now: loop.moment)
        case .nodes(.invites(let invites)): engine.invitesTakenOver(invites, now: loop.moment)
        case .nodes(.takenOver(let remaining)): engine.takenOver(remaining: remaining, now: loop.moment)
        case .nodes(.messages(let rows, let users)): engine.messagesTakenOver(rows, for: users, now: loop.moment)
        case .nodes(.changed(let tables)): tablesChanged(tables)
        case .contacts(let question, let page): engine.contactsFound(question, page, now: loop.moment)
        case .nodes(.duties(let isHeld)):
            engine.dutiesChanged(isHeld: isHeld, now: loop.moment)
            dutiesChanged(isHeld)
        case .nodes(.counts(let counts)): engine.countsTold(counts, now: loop.moment)
        case .nodes(.alive):
            let counts = engine.takeCounts(now: loop.moment)
            if !counts.isEmpty { services.shared?.tell(counts) }
        }
    }

    /// Sends the engine a query of a service or operator, and runs the resulting actions. Only the ``ShardDoor`` calls
    /// ``enter(_:)``.
    func enter<Answer: Sendable>(_ question: @Sendable (ProxyEngine, Moment) -> Answer) -> Answer {
        defer { runActions() }
        return question(engine, loop.moment)
    }

    // MARK: Actions

    /// Runs the engine's actions. Only ``runActions()`` turns the engine's decisions into I/O.
    ///
    /// Some actions have an immediate result, such as a look-up of a known address. An immediate result of an action
    /// enters the engine after all other actions.
    func runActions() {
        // The run in progress also performs the actions of a nested ``runActions()``.
        guard !isRunningActions else { return }
        isRunningActions = true
        engine.takeActions(into: &actions)
        while !actions.isEmpty {
            writeJournal()
            // Popping from the end moves each action without a copy.
            actions.reverse()
            while let action = actions.popLast() { run(action) }
            for arrival in waiting { enter(with: arrival) }
            waiting.removeAll(keepingCapacity: true)
            engine.takeActions(into: &actions)
        }
        isRunningActions = false
        // Queued reports start in a later turn of the loop, so that services with finished reports continue first.
        if !waiters.queuedReports.isEmpty, waiters.acceptsReport {
            loop.post { [self] in assumeIsolated { $0.startQueuedReports() } }
        }
        if let deadline = engine.nextDeadline { timer?.arm(at: deadline) } else { timer?.disarm() }
    }

    /// Passes waiting reports of devices to the engine.
    func startQueuedReports() {
        while waiters.acceptsReport, let (reporter, report) = waiters.queuedReports.popFirst() {
            let ticket = ReportTicket(waiters.nextNumber())
            waiters.reporters[ticket] = reporter
            report(engine, ticket, loop.moment)
        }
        runActions()
    }

    /// Writes the journal entries and events among the actions before any message is sent that depends on them.
    private func writeJournal() {
        var hasEvents = false
        // A loop over indices does not copy each action, but a loop over elements does.
        for index in actions.indices {
            if case .journal(let change) = actions[index] {
                services.store.journal(change)
            } else if reportsEvents, case .tell(let event) = actions[index] {
                services.tell(event)
                hasEvents = true
            }
        }
        // Events are written first: if the process ends in between, the next run repeats an event instead of losing it.
        if hasEvents { services.flushEvents() }
        services.store.flushJournal()
    }

    private func run(_ action: consuming ProxyAction) {
        switch consume action {
        case .send(let bytes, let flow): send(bytes, on: flow)
        case .flowProved(let flow, let account): streams.proved(flow, by: account)
        case .reuse(let flow, let place, let server): streams.reuse(flow, as: place, server)
        case .expectLife(let flow, let pause): streams.expectLife(on: flow, every: pause)
        case .commit(let changes, let ticket): commit(changes, ticket)
        case .journal, .tell: break
        case .record(let changes): services.store.record(changes)
        case .refresh(let rows): services.store.refresh(rows)
        case .trace(let changes):
            taps?.traced(changes)
            observer?(changes)
            services.store.trace(changes)
        case .callEnded(let report): taps?.ended(report)
        case .push(let transmission):
            taps?.pushSent(transmission)
            services.push.send(transmission)
        case .makeCredential(let order): services.push.make(order)
        case .dryRunEnded(let ticket, let canBePushed):
            waiters.dryRuns.removeValue(forKey: ticket)?.resume(returning: canBePushed)
        case .testPushEnded(let ticket, let record): waiters.testEnded(ticket, record)
        case .reported(let ticket, let result): waiters.reporters.removeValue(forKey: ticket)?.resume(returning: result)
        case .resolve(let hop, let ticket): resolve(hop, ticket)
        case .askUser(let question): ask(question)
        case .readKeys(let issuer): readKeys(issuer)
        case .userSettled(let ticket): waiters.logins.removeValue(forKey: ticket)?.resume()
        case .storeRegisterCeiling(let ceiling): store(ceiling)
        case .readRegisterCeiling: readCeiling()
        case .readUsers(let question, let waiting): read(question, waiting: waiting)
        case .userLookedUp(let ticket, let isFresh):
            waiters.looks.removeValue(forKey: ticket)?.resume(returning: isFresh)
        case .findNodes(let aor): findNodes(waitingFor: aor)
        case .findContacts(let question):
            services.shared?.contacts(question) { [weak self] page in
                self?.answered { $0.arrived(.contacts(question, page)) }
            }
        case .endWaiting(let users): services.shared?.endWaiting(users)
        case .endInvite(let aor, let callID): services.shared?.endInvite(aor, callID: callID)
        }
    }

    private func send(_ bytes: [UInt8], on flow: Flow) {
        if flow.transport == .udp {
            guard let socket = socket(of: flow.listener) else { return isAnswered = true }
            taps?.message(bytes.span, isIncoming: false, on: flow)
            socket.queue(bytes, to: flow.remote)
        } else if streams.send(bytes, on: flow) {
            taps?.message(bytes.span, isIncoming: false, on: flow, local: streams.local(of: flow))
        } else {
            // The failure is posted to the loop, because no event may enter the engine while actions run.
            loop.post { [self] in assumeIsolated { $0.sendFailed(on: flow) } }
        }
    }

    func socket(of listener: UInt16) -> UDPSocket? {
        listener < sockets.count ? sockets[Int(listener)] : nil
    }

    private func commit(_ changes: [EngineChange], _ ticket: CommitTicket) {
        if !load.isWaiting { load.ordered(ticket, now: loop.now) }
        services.store.commit(changes, ticket)
    }

    private func ask(_ question: UserQuestion) {
        services.askUser(question) { [weak self] answer in
            self?.onLoop { $0.arrived(.user(question.ticket, answer)) }
        }
    }

    private func store(_ ceiling: UInt32) {
        services.store.commit([RegisterCeiling.change(ceiling)]) { [weak self] result in
            guard result.isStored else { return }
            self?.onLoop { $0.arrived(.registerCeiling(ceiling)) }
        }
    }

    private func readCeiling() {
        Task { [weak self, services] in
            let ceiling = try? await RegisterCeiling.stored(in: services.store)
            self?.answered { $0.arrived(.readCeiling(ceiling)) }
        }
    }

    private func read(_ question: UserReads.Question, waiting: Announcement?) {
        services.shared?.read(question.subjects, waiting: waiting) { [weak self] users in
            self?.answered { $0.arrived(.users(question.ticket, users)) }
        }
    }

    private func findNodes(waitingFor aor: AddressOfRecord) {
        services.shared?.nodes(waitingFor: aor) { [weak self] names in
            guard !names.isEmpty else { return }
            self?.answered { $0.arrived(.found(waitingFor: aor, names)) }
        }
    }

    /// Announces this daemon to the other nodes of the cluster, and follows which nodes live. The closure `changed` gets,
    /// on the loop, the tables that operators may have changed. The closure `duties` gets, on the loop, whether this node
    /// has the duties that one node does for all nodes.
    package func joinCluster(
        at place: String, changed: @escaping (Set<OperatorTable>) -> Void, duties: @escaping (Bool) -> Void
    ) {
        (tablesChanged, dutiesChanged) = (changed, duties)
        startPulse()
        services.shared?.join(at: place) { [weak self] news in self?.answered { $0.arrived(.nodes(news)) } }
    }

    /// Runs `body` on the shard's loop; a thread of the store calls ``answered(_:)``.
    nonisolated func answered(_ body: @escaping @Sendable (isolated ProxyShard) -> Void) {
        loop.post { self.assumeIsolated(body) }
    }

    private func readKeys(_ issuer: Int) {
        services.readKeys(issuer) { [weak self] keys in
            self?.onLoop { $0.arrived(.keys(keys, issuer: issuer)) }
        }
    }

    private func resolve(_ hop: NextHop, _ ticket: ResolutionTicket) {
        services.resolve(hop) { [weak self] hops in
            self?.onLoop { $0.arrived(.resolved(ticket, hops)) }
        }
    }
}
