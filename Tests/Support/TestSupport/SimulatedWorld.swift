import Addressing
import Bytes
import Calling
import ProxyCore
import ProxyPolicy
import PushDelivery
import PushPlanning
import Registration
import SIPGrammar
import SIPMessage
package import Timekeeping

/// A simulated day of one daemon or of a cluster of nodes, with phones, a PBX, a push provider, a network that loses
/// datagrams, a disk, and crashes. A cluster also has a shared store and links between the nodes.
///
/// The simulation has its own clock, and takes all random numbers from a seed. A day takes seconds, and its seed
/// repeats it. The property ``violations`` lists the invariants that the daemon violated.
package final class SimulatedWorld {
    package struct Plan {
        package var users = 6
        package var devicesPerUser = 1...3
        package var ordinaryDevices = 0.2
        package var streamDevices = 0.4
        package var loss = 0.03
        package var duplication = 0.02
        package var calls = 200
        package var crashes = 2
        package var pushFailure = 0.05
        package var wakes = 0.8
        package var refreshes = 0.3
        /// The share of phones that are awake when a push arrives, and therefore answer by a keep-alive instead of a
        /// REGISTER.
        package var awake = 0.3
        /// The share of phones that move to another address soon after an INVITE, perhaps with a restart of the app.
        package var moves = 0.25
        package var restarts = 0.5
        /// The share of absent phones' connections whose end is noticed late.
        package var halfOpen = 0.5
        /// Whether an INVITE is sent immediately if the phone's flow recently showed a sign of life.
        package var ringsLiveFlows = false
        /// The number of SIP flows that each phone registers.
        package var flows = 1
        /// Whether the daemon gives phones a `pn-purr` value for their Contacts (RFC 8599 section 6). The property
        /// `callsByPURR` is the share of calls to one phone, named by a Contact with `pn-purr`.
        package var announcesPURR = false
        package var callsByPURR = 0.3
        /// How many times the UDP network between the daemon and some peers is interrupted, for less than a
        /// transaction's time-out.
        package var partitions = 0
        /// How many times the disk is full for a while.
        package var fullDisks = 0
        /// The share of CANCELs with the Reason that another phone answered.
        package var answeredElsewhere = 0.2
        package var outgoing = 0
        /// Whether the PBX owns the users, and the daemon registers them at the PBX. The PBX then sends INVITEs to the
        /// contacts that the daemon has registered.
        package var registersAtPBX = false
        /// How many times the PBX loses its registrations.
        package var pbxRestarts = 0

        package init() {}
    }

    package private(set) var plan = Plan()
    package internal(set) var random: SeededGenerator
    package private(set) var now = Moment(
        instant: Instant(nanoseconds: 1_000_000_000), date: UnixTime(seconds: 1_790_000_000))
    package var violations: [String] = []

    /// The daemons; a world without a cluster has one.
    package private(set) var nodes: [SimulatedNode] = []
    /// The shared store and the links of a cluster; `nil` without a cluster.
    package private(set) var cluster: SimulatedClusterState?
    let seed: UInt64
    private let story: ((String) -> Void)?
    let reader = SimulatedReader()
    package internal(set) var registrations = SimulatedRegistrations()
    private var agenda = Agenda()

    package internal(set) var phones: [SimulatedPhone] = []
    package internal(set) var calls: [SimulatedCall] = []
    var outgoing: [SimulatedOutgoing] = []
    var phoneAt: [Endpoint: Int] = [:]
    var phoneOn: [UInt64: Int] = [:]
    /// The connections of phones that vanished without notice; messages on these connections are lost.
    var halfOpen = Set<UInt64>()
    var lastConnection: UInt64 = 0
    private var diskFullUntil = Instant(nanoseconds: 0)
    /// The endpoints without network, each with the time at which its network returns.
    var cutOff: [Endpoint: Instant] = [:]
    /// The number of commits that a full disk refused, and the number of messages that interruptions lost.
    package private(set) var refusedCommits = 0
    package internal(set) var interruptedMessages = 0

    static let proxy = Endpoint(IPAddress(v4: 0x0a00_0001), 5060)
    static let pbx = Endpoint(IPAddress(v4: 0x0a00_0002), 5060)

    /// Prepares a simulated day.
    ///
    /// - Parameters:
    ///   - seed: determines all events of the day. On every second day, the daemon crashes a dozen times. On every
    ///     fourth day, phones whose flow shows life are called immediately, and get a push in parallel. On every eighth
    ///     day, phones have two flows, and no datagram is lost. On another eighth of the days, phones have `pn-purr`
    ///     values in their Contacts, and some calls use them. On a third of the days, the network is interrupted and
    ///     the disk is full repeatedly. On three of eight days, phones make calls through the PBX. On a sixteenth of
    ///     the days, the PBX owns the users.
    ///   - count: the number of nodes. With several nodes, `seed` chooses the faults of the cluster instead, see
    ///     ``SimulatedClusterPlan``.
    ///   - story: called with a line for each message that the daemon sends or receives.
    package init(seed: UInt64, nodes count: Int = 1, story: ((String) -> Void)? = nil) {
        self.seed = seed
        self.story = story
        random = SeededGenerator(seed: seed)
        if count > 1 {
            (plan, cluster) = SimulatedClusterState.planned(seed, nodes: count)
        } else {
            planDay(seed)
        }
        for number in 0..<count {
            nodes.append(SimulatedNode(number: number, engine: engine(StoredState(), of: number, run: 1)))
        }
        makePhones()
    }

    private func planDay(_ seed: UInt64) {
        plan.ringsLiveFlows = seed % 4 == 3
        plan.announcesPURR = seed % 8 == 2
        if seed % 2 == 1 { plan.crashes = 12 }
        if seed % 4 == 1 || seed % 8 == 6 { plan.outgoing = 100 }
        if seed % 8 == 6 { (plan.partitions, plan.fullDisks) = (40, 12) }
        if seed % 16 == 12 { (plan.registersAtPBX, plan.pbxRestarts, plan.crashes) = (true, 6, 6) }
        if seed % 8 == 5 {
            plan.flows = 2
            // If one flow's REGISTER were lost, that flow would appear to be at the phone's old address.
            plan.loss = 0
        }
    }

    private func makePhones() {
        for user in 0..<plan.users {
            for device in 0..<Int.random(in: plan.devicesPerUser, using: &random) {
                let isOrdinary = random.chance(plan.ordinaryDevices)
                let transport: Transport = random.chance(plan.streamDevices) ? .tcp : .udp
                phones.append(
                    SimulatedPhone(
                        number: phones.count, user: "u\(user)", name: "u\(user)d\(device)", isOrdinary: isOrdinary,
                        transport: transport, flows: plan.flows))
            }
        }
    }

    /// Makes the engine of a daemon.
    ///
    /// - Parameters:
    ///   - stored: the state in the store.
    ///   - number: the number of the daemon.
    ///   - run: the number of the engine's run in the cluster.
    ///   - generation: the number of the daemon's earlier engines. Each engine gets another seed, as each run of the
    ///     daemon has its own random numbers.
    /// - Returns: the engine.
    func engine(_ stored: StoredState, of number: Int, run: UInt32, generation: Int = 0) -> ProxyEngine {
        var stored = stored
        let plan = plan
        if plan.registersAtPBX {
            stored.users = SimulatedRegistrations.users(plan.users)
            stored.registerCeiling = generation == 0 ? 0 : registrations.ceiling
        }
        let place = cluster?.places[number]
        return EngineFixture.engine(
            stored,
            seed: (generation == 0 ? seed &+ 1 : seed &+ UInt64(generation) << 32) ^ UInt64(number) << 52,
            startedAt: now.date, node: place?.own(run: run), at: place?.address ?? Self.proxy.address,
            named: place.map { _ in SimulatedClusterState.name }
        ) {
            if plan.ringsLiveFlows { $0.call.ringLiveFlowWithin = .seconds(300) }
            $0.registrar.announcesPURR = plan.announcesPURR
            if plan.outgoing > 0 { $0.upstream = NextHop("sip:\(Self.pbx)") }
            if plan.registersAtPBX {
                var group = UpstreamRegistrationSettings()
                group.upstream = NextHop("sip:\(Self.pbx)")
                $0.upstreamRegistrations = [ByteString("example.net"): group]
            }
        }
    }

    // MARK: The day

    /// Simulates the day and a quiet evening, in which every phone returns.
    package func run() {
        if cluster != nil { clusterStarts() }
        for phone in phones.indices {
            at(random.milliseconds(0...20_000)) { $0.phoneWakes(phone) }
            planIdleWake(of: phone)
        }
        var start: Duration = .seconds(30)
        for number in 0..<plan.calls {
            start += random.milliseconds(100...20_000)
            at(start) { $0.callStarts(number) }
        }
        for number in 0..<plan.outgoing {
            at(random.milliseconds(30_000...Int64(start / .milliseconds(1)))) { $0.phoneCalls(number) }
        }
        for _ in 0..<plan.crashes {
            at(random.milliseconds(60_000...max(61_000, Int64(start / .milliseconds(1))))) { $0.crash() }
        }
        for _ in 0..<plan.partitions {
            at(random.milliseconds(30_000...Int64(start / .milliseconds(1)))) { $0.networkBreaks() }
        }
        for _ in 0..<plan.pbxRestarts {
            at(random.milliseconds(30_000...Int64(start / .milliseconds(1)))) { $0.pbxRestarts() }
        }
        for _ in 0..<plan.fullDisks {
            at(random.milliseconds(30_000...Int64(start / .milliseconds(1)))) { $0.diskFills() }
        }
        if cluster != nil { planClusterFaults(within: start) }
        runUntil(now.instant + start + .seconds(400))
        // In the evening, no calls begin, no messages are lost, and each phone registers twice.
        isQuiet = true
        for round in 0..<2 {
            for phone in phones.indices {
                at(.seconds(Int64(round) * 120) + random.milliseconds(0...5_000)) { $0.phoneWakes(phone) }
            }
        }
        runUntil(now.instant + .seconds(400))
        checkEvening()
    }

    private(set) var isQuiet = false

    private func planIdleWake(of phone: Int) {
        at(random.milliseconds(60_000...900_000)) { world in
            guard !world.isQuiet else { return }
            world.phoneWakes(phone)
            world.planIdleWake(of: phone)
        }
    }

    private func runUntil(_ end: Instant) {
        while let next = [agenda.next, nodes.compactMap(\.timer).min()].compactMap({ $0 }).min(), next <= end {
            advance(to: next)
            if let node = nodes.first(where: { $0.timer == next }) {
                node.engine.deadlineReached(now: now)
                drain(node.number)
            } else if let event = agenda.pop() {
                event(self)
            }
        }
        advance(to: end)
    }

    private func advance(to instant: Instant) {
        guard instant > now.instant else { return }
        now = Moment(instant: instant, date: now.date + (instant - now.instant))
    }

    func at(_ delay: Duration, _ event: @escaping (SimulatedWorld) -> Void) {
        agenda.add(event, at: now.instant + delay)
    }

    // MARK: The story

    func tell(_ line: @autoclosure () -> String) {
        if let story { story("\(now.instant.nanoseconds / 1_000_000) \(line())") }
    }

    /// Passes a line about the message to `story`.
    func tell(_ what: String, _ bytes: [UInt8], on flow: Flow, at node: Int = 0) {
        cluster?.note(now.instant, bytes.count)
        guard story != nil else { return }
        let phone = flow.transport.isReliable ? phoneOn[flow.connection] : phoneAt[flow.remote]
        let name = phone.map { phones[$0].name } ?? (flow.remote == Self.pbx ? "pbx" : "nobody")
        let rows = String(decoding: bytes, as: UTF8.self).split(separator: "\r\n").prefix { !$0.isEmpty }
        let first = rows.first ?? ""
        let others = rows.filter { row in ["Via", "Call-ID", "CSeq", "Reason"].contains { row.hasPrefix("\($0):") } }
        let daemon = cluster == nil ? "" : "node \(node): "
        tell(
            "\(daemon)\(what) \(name) (\(flow.transport.parameterName) \(flow.connection) \(flow.remote)): \(first) "
                + others.joined(separator: " | "))
    }

    // MARK: The daemon

    func drain(_ number: Int = 0) {
        let node = nodes[number]
        while true {
            let actions = node.engine.takeActions()
            if actions.isEmpty { break }
            for action in actions { run(action, of: node) }
        }
        let rest = node.engine.nextDeadline
        node.timer = rest.map { max($0, now.instant) }
    }

    private func run(_ action: ProxyAction, of node: SimulatedNode) {
        switch action {
        case .send(let bytes, let flow): proxySent(bytes, on: flow, from: node.number)
        case .commit(let changes, let ticket):
            node.disk.queue(changes, ticket)
            planCommit(of: node)
        case .journal(let change): journal(change, of: node)
        case .record(let changes):
            node.disk.queue(changes, nil)
            planCommit(of: node)
        case .refresh(let rows):
            node.disk.queue(rows.map { .binding(.refresh($0)) }, nil)
            planCommit(of: node)
        case .trace(let changes):
            for case .record(let record) in changes { recorded(record, at: node) }
            planCommit(of: node)
        case .push(let transmission): pushLeft(transmission, from: node)
        case .makeCredential, .dryRunEnded, .testPushEnded: break
        case .reported: break
        case .flowProved, .expectLife, .reuse, .callEnded, .tell: break
        case .readKeys: break
        case .askUser(let question): node.engine.userAnswered(question.ticket, .unknown, now: now)
        case .userSettled: break
        case .resolve(_, let ticket):
            node.engine.resolved(ticket, to: [], now: now)
        case .storeRegisterCeiling(let ceiling): store(ceiling)
        case .readRegisterCeiling: break
        case .userLookedUp: break
        case .readUsers(let question, let announcement): read(question, announcing: announcement, of: node)
        case .findNodes(let aor): ask(.nodes(waitingFor: aor), of: node)
        // The simulated days have no duties of one node.
        case .findContacts: break
        case .endWaiting(let users): ask(.endWaiting(users), of: node)
        case .endInvite(let aor, let callID): ask(.endInvite(aor, callID: callID), of: node)
        }
    }

    private func journal(_ change: CallChange, of node: SimulatedNode) {
        guard cluster != nil else { return node.disk.journal(change) }
        node.disk.journalOfNode(change)
        if let invite = HeldInvite(ofPhone: change) { ask(.keep(invite), of: node) }
        if let (call, change) = node.sharedCalls.noted(change) { ask(.callChanged(call, change), of: node) }
    }

    func planCommit(of node: SimulatedNode) {
        let generation = node.generation
        at(random.milliseconds(1...6)) { world in
            guard node.generation == generation else { return }
            guard world.cluster == nil else { return world.writeToStore(of: node) }
            let hasRoom = world.now.instant >= world.diskFullUntil
            let tickets = hasRoom ? node.disk.commit() : node.disk.refuse()
            if !hasRoom { world.refusedCommits += tickets.count }
            for ticket in tickets { node.engine.committed(ticket, succeeded: hasRoom, now: world.now) }
            world.drain()
        }
    }

    /// Makes the disk refuse changes for a while, except changes of the call journal, which is on another disk.
    private func diskFills() {
        let pause = random.milliseconds(1_000...20_000)
        tell("the disk is full for \(pause)")
        diskFullUntil = now.instant + pause
        at(pause) { $0.planCommit(of: $0.nodes[0]) }
    }

    /// Lets the daemon crash, which loses all connections and all uncommitted changes.
    private func crash() {
        tell("the daemon dies")
        let node = nodes[0]
        node.generation += 1
        let kept = Set(node.disk.calls.values.compactMap(\.userCall?.callID.string))
        for index in calls.indices where !calls[index].isOver {
            calls[index].sawCrash = true
            // A crash loses a call that the call journal does not have yet.
            if !kept.contains(calls[index].callID) { calls[index].wasLost = true }
        }
        for index in calls.indices { calls[index].reportsInFlightAtCrash.formUnion(calls[index].reportsUnderWay) }
        node.disk.dropQueue()
        node.timeline.crashed()
        node.engine = engine(node.disk.restored(), of: 0, run: 1, generation: node.generation)
        for row in node.disk.bindings.values.sorted(by: { $0.id < $1.id }) { _ = node.engine.restore(row, now: now) }
        for call in node.disk.calls.values.sorted(by: { $0.id < $1.id }) { node.engine.restore(call, now: now) }
        node.engine.restored(now: now)
        phoneOn = [:]
        halfOpen = []
        for index in phones.indices where phones[index].transport == .tcp { phones[index].connection = nil }
        checkContacts(on: node.disk, after: "a crash")
        drain()
    }

    func noteRefusedCommit() { refusedCommits += 1 }

    func checkContacts(on disk: SimulatedDisk, after event: String) {
        for phone in phones where phone.isAcknowledged && !phone.isOrdinary && !disk.holdsToken(phone.token) {
            violate("lost the contact of \(phone.name) in \(event)")
        }
    }
}
