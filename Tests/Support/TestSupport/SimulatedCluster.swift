package import Addressing
package import Bytes
import Calling
package import LocationService
import Messaging
package import ProxyCore
package import ProxyPolicy
package import PushDelivery
package import Registration
import Routing
package import SIPGrammar
import SIPMessage
package import Timekeeping

/// Several nodes of a cluster on one simulated store. All effects of the engines wait in queues: one queue for each
/// node's writes and reads, for the answers to each node, and for each direction between two nodes. The order inside a
/// queue never changes. With a seed, the cluster takes the next effect from a random queue.
package final class SimulatedCluster {
    package struct Message {
        package let node: Int
        package let bytes: [UInt8]
        package let flow: Flow

        package var request: SIPRequest? { SIPText.readRequest(bytes) }
        package var response: SIPResponse? { SIPText.readResponse(bytes) }
    }

    private enum Queue: Hashable {
        case store(Int)
        case answers(Int)
        case link(from: Int, to: Int)
    }

    package private(set) var engines: [ProxyEngine]
    /// The settings of the nodes, and the call journal of each node.
    private let change: (inout ProxySettings) -> Void
    private var journals: [Int: SimulatedDisk] = [:]
    package private(set) var disk = SimulatedDisk()
    package private(set) var now = Moment(
        instant: Instant(nanoseconds: 1_000_000_000), date: UnixTime(seconds: 1_790_000_000))
    /// The messages that the nodes have sent to phones and PBXs, in order.
    package var sent: [Message] = []
    package private(set) var pushes: [(node: Int, push: PushDispatcher.Transmission)] = []
    /// The number of messages from one node to another.
    package private(set) var exchanged = 0
    /// The nodes at which something waits for phones of each user.
    package private(set) var waiting: [AddressOfRecord: Set<Int>] = [:]
    /// The number of questions about users to the store.
    package private(set) var reads = 0
    /// The operators' questions about users that have ended.
    package private(set) var looks: [(ticket: LookTicket, isFresh: Bool)] = []
    /// The number of pages of contacts that nodes have searched.
    package private(set) var pages = 0
    /// The time since the start, in whole seconds.
    package var elapsed: Int { Int((now.instant - Instant(nanoseconds: 1_000_000_000)).components.seconds) }
    /// The INVITEs that wait at each node.
    package private(set) var held: [Int: [HeldInvite]] = [:]
    /// The calls whose changes the other nodes need, and the changes, for each node.
    private var sharedCalls: [Int: SharedCallStates] = [:]
    private var changes: [Int: [HeldCallKey: [CallChange]]] = [:]
    /// The pairs of nodes whose link loses all messages.
    package var cut = Set<[Int]>()
    /// Whether refreshed rows, which a node may write seconds later, do not reach the store.
    package var losesRefreshes = false
    /// The accounts in the store.
    package var users = UserDirectory()
    /// Whether the store answers and commits nothing.
    package var isStoreAway = false
    /// Whether the store commits changes, but its answers are lost.
    package var losesConfirmations = false
    private var queues: [Queue: [() -> Void]] = [:]
    private var order: [Queue] = []
    private var random: SeededGenerator?
    /// The name of all nodes in their messages to phones and PBXs; `nil` if each node uses its own address.
    private let name: ByteString?
    /// The ceiling of CSeq numbers in the store.
    private var registerCeiling: UInt32 = 0

    package init(
        nodes count: Int = 2, seed: UInt64? = nil, named name: ByteString? = nil,
        _ change: @escaping (inout ProxySettings) -> Void = { _ in }
    ) {
        (self.change, self.name) = (change, name)
        random = seed.map { SeededGenerator(seed: $0) }
        engines = (0..<count).map { index in
            EngineFixture.engine(
                StoredState(), seed: UInt64(index + 1), node: Self.own(index), at: Self.address(index), named: name,
                change)
        }
        for index in engines.indices {
            engines[index].restored(now: now)
            engines[index].nodesChanged(
                engines.indices.filter { $0 != index }.map { Self.peer($0) }, now: now)
        }
        settle()
    }

    package static let pbx = Endpoint(IPAddress(v4: 0x0a00_0002), 5060)

    package static func address(_ node: Int) -> IPAddress { IPAddress(v4: 0x0a00_0101 + UInt32(node)) }

    private static func place(_ node: Int) -> Endpoint { Endpoint(address(node), 5071) }

    private static func own(_ node: Int, restarted: Bool = false) -> OwnNode {
        OwnNode(
            name: "n\(node)", place: ByteString("\(place(node))"), listener: 2,
            run: UInt32(node + (restarted ? 101 : 1)),
            secret: SipHash.Key(low: 1, high: 2))
    }

    package static func peer(_ node: Int, restarted: Bool = false) -> PeerNode {
        PeerNode(
            name: "n\(node)", place: ByteString("\(place(node))"), run: UInt32(node + (restarted ? 101 : 1)))
    }

    package static func udp(_ remote: Endpoint) -> Flow {
        Flow(transport: .udp, listener: 0, connection: 0, remote: remote)
    }

    package static func tcp(_ remote: Endpoint, _ connection: UInt64) -> Flow {
        Flow(transport: .tcp, listener: 1, connection: connection, remote: remote)
    }

    // MARK: Events

    package func receive(_ bytes: [UInt8], on flow: Flow, at node: Int) {
        switch MessageReader().read(bytes.span, isStream: false) {
        case .request(let request): engines[node].requestReceived(request, on: flow, now: now)
        case .response(let response): engines[node].responseReceived(response, on: flow, now: now)
        case .unusable(let message): engines[node].unusableReceived(message, on: flow, now: now)
        }
        take(from: node)
    }

    package func close(_ flow: Flow, at node: Int) {
        engines[node].flowClosed(flow, now: now)
        take(from: node)
    }

    /// Ends the connection that one node has opened to another.
    package func endLink(openedBy node: Int, to peer: Int) {
        let opened = Endpoint(Self.address(node), 40_000)
        close(Flow(transport: .tls, listener: 2, connection: UInt64(100 + node), remote: opened), at: peer)
        close(
            Flow(transport: .tls, listener: 2, connection: UInt64(200 + peer), remote: Self.place(peer)), at: node)
        settle()
    }

    /// Tells a node that it cannot connect to another node.
    package func cannotConnect(_ node: Int, to peer: Int) {
        engines[node].sendFailed(
            on: Flow(transport: .tls, listener: 2, connection: 0, remote: Self.place(peer)), now: now)
        take(from: node)
        settle()
    }

    /// Performs all waiting effects, and all effects that they cause.
    package func settle() {
        while performNext() {}
    }

    /// Performs one waiting effect; the result is false if none waits.
    package func performNext() -> Bool {
        let ready = order.filter { queues[$0]?.isEmpty == false }
        guard !ready.isEmpty else { return false }
        var place = 0
        if var generator = random {
            place = Int.random(in: ready.indices, using: &generator)
            random = generator
        }
        queues[ready[place]]?.removeFirst()()
        return true
    }

    package func pass(_ duration: Duration) {
        let end = now.instant + duration
        while let next = engines.indices.filter({ !dead.contains($0) }).compactMap({ engines[$0].nextDeadline }).min(),
            next <= end
        {
            advance(to: next)
            for node in engines.indices where !dead.contains(node) {
                engines[node].deadlineReached(now: now)
                take(from: node)
            }
            settle()
        }
        advance(to: end)
    }

    private func advance(to instant: Instant) {
        guard instant > now.instant else { return }
        now = Moment(instant: instant, date: now.date + (instant - now.instant))
    }

    /// Ends a node without notice. The node `successor` takes over the requests that waited there, after `events` until
    /// the other nodes notice the end.
    package func kill(_ node: Int, takenOverBy successor: Int, until events: () -> Void = {}) {
        for queue in order where queue == .store(node) || queue == .answers(node) { queues[queue] = [] }
        dead.insert(node)
        events()
        let invites = takenFrom(node)
        for aor in waiting.keys { waiting[aor]?.remove(node) }
        for other in engines.indices where !dead.contains(other) {
            engines[other].nodesChanged(
                engines.indices.filter { $0 != other && !dead.contains($0) }.map { Self.peer($0) }, now: now)
            take(from: other)
        }
        engines[successor].invitesTakenOver(invites, now: now)
        let messages = disk.messages.values.filter { $0.id >> OwnNode.runShift == UInt64(node + 1) }
        engines[successor].messagesTakenOver(
            messages, for: StoredUsers(users: messages.compactMap { disk.user(.user($0.aor)) }), now: now)
        take(from: successor)
    }

    /// Lets the node `successor` take over the calls of a node that gave no sign of life, but runs. The store tells the
    /// node of the take-over; `remaining` is the number of its latest calls that the store still has for the node.
    package func takeOver(_ node: Int, by successor: Int, remaining: Int = 0) {
        var invites = takenFrom(node)
        held[node] = Array(invites.suffix(remaining))
        invites.removeLast(min(remaining, invites.count))
        for aor in waiting.keys { waiting[aor]?.remove(node) }
        engines[successor].invitesTakenOver(invites, now: now)
        take(from: successor)
        engines[node].takenOver(remaining: Set((held[node] ?? []).map(\.key)), now: now)
        take(from: node)
    }

    /// Lets all nodes give a sign of life: each node tells its counts to the others.
    package func giveSigns() {
        for node in engines.indices where !dead.contains(node) {
            let counts = engines[node].takeCounts(now: now).map { count in
                var count = count
                count.run = UInt32(node + 1)
                return count
            }
            guard !counts.isEmpty else { continue }
            for other in engines.indices where other != node && !dead.contains(other) {
                engines[other].countsTold(counts, now: now)
            }
        }
    }

    /// Gives the duties that one node does for all nodes to a node; `nil` takes the duties from all nodes.
    package func giveDuties(to owner: Int?) {
        for node in engines.indices where !dead.contains(node) {
            engines[node].dutiesChanged(isHeld: node == owner, now: now)
            take(from: node)
        }
        settle()
    }

    /// Ends a node without notice, and starts it again before another node takes its calls over. The other nodes know of
    /// the new run a moment later.
    package func restart(_ node: Int) {
        for queue in order where queue == .store(node) || queue == .answers(node) { queues[queue] = [] }
        engines[node] = EngineFixture.engine(
            StoredState(), seed: UInt64(node + 101), node: Self.own(node, restarted: true), at: Self.address(node),
            named: name, change)
        let others = engines.indices.filter { $0 != node && !dead.contains($0) }
        engines[node].nodesChanged(others.map { Self.peer($0) }, now: now)
        let calls = (journals[node]?.calls ?? [:]).values.sorted { $0.id < $1.id }
        for aor in Set(calls.compactMap { $0.userCall?.aor }) {
            if let user = disk.user(.user(aor)) { engines[node].restore(user, now: now) }
        }
        for call in calls { engines[node].restore(call, now: now) }
        engines[node].restored(now: now)
        take(from: node)
        settle()
        for other in others {
            let peers = engines.indices.filter { $0 != other && !dead.contains($0) }
            engines[other].nodesChanged(peers.map { Self.peer($0, restarted: $0 == node) }, now: now)
            take(from: other)
        }
        settle()
    }

    /// Forgets the states of a node's calls, as if the node had ended before it wrote them.
    package func forgetChanges(at node: Int) { changes[node] = nil }

    /// Tells a node that it stood still.
    package func standStill(_ node: Int) { engines[node].stoodStill() }

    /// Tells a node that it knows again what others have taken over.
    package func catchUp(_ node: Int) {
        engines[node].caughtUp(now: now)
        take(from: node)
    }

    private var dead = Set<Int>()

    // MARK: Effects

    private func add(_ effect: @escaping () -> Void, to queue: Queue) {
        if !order.contains(queue) { order.append(queue) }
        queues[queue, default: []].append(effect)
    }

    /// Lets the store work for a node, and tells the node the answer later.
    private func ask<Answer>(
        _ node: Int, _ work: @escaping () -> Answer, answer: @escaping (ProxyEngine, Answer, Moment) -> Void
    ) {
        add(
            { [self] in
                let found = work()
                add(
                    { [self] in
                        answer(engines[node], found, now)
                        take(from: node)
                    }, to: .answers(node))
            }, to: .store(node))
    }

    package func take(from node: Int) {
        while true {
            let actions = engines[node].takeActions()
            guard !actions.isEmpty else { return }
            for action in actions { run(action, of: node) }
        }
    }

    private func run(_ action: ProxyAction, of node: Int) {
        switch action {
        case .send(let bytes, let flow): send(bytes, on: flow, from: node)
        case .commit(let changes, let ticket): write(changes, ticket, of: node)
        case .record(let changes): write(changes, nil, of: node)
        case .refresh where losesRefreshes: break
        case .refresh(let rows): write(rows.map { .binding(.refresh($0)) }, nil, of: node)
        case .push(let push): pushes.append((node, push))
        case .readUsers(let question, let waiting):
            reads += 1
            read(question.ticket, question.subjects, waiting: waiting, of: node)
        case .userLookedUp(let ticket, let isFresh): looks.append((ticket, isFresh))
        case .findNodes(let aor):
            ask(node) { [self] in
                isStoreAway ? [] : (waiting[aor] ?? []).filter { $0 != node }.sorted().map { "n\($0)" }
            } answer: {
                $0.nodesFound(waitingFor: aor, $1, now: $2)
            }
        case .findContacts(let question): search(question, of: node)
        case .storeRegisterCeiling(let ceiling):
            ask(node) { [self] in
                if !isStoreAway { registerCeiling = ceiling }
                return !isStoreAway
            } answer: {
                if $1 { $0.registerCeilingStored(ceiling, now: $2) }
            }
        case .readRegisterCeiling:
            ask(node) { [self] in
                isStoreAway ? nil : registerCeiling
            } answer: {
                $0.registerCeilingRead($1, now: $2)
            }
        case .endWaiting(let users):
            add({ [self] in for aor in users { waiting[aor]?.remove(node) } }, to: .store(node))
        case .journal(let change):
            journals[node, default: SimulatedDisk()].journalOfNode(change)
            if let invite = HeldInvite(ofPhone: change) {
                add({ [self] in keep(invite, at: node) }, to: .store(node))
            }
            guard let (call, change) = sharedCalls[node, default: SharedCallStates()].noted(change) else { break }
            add({ [self] in changes[node, default: [:]][call, default: []].append(change) }, to: .store(node))
        case .endInvite(let aor, let callID):
            add(
                { [self] in
                    held[node]?.removeAll { $0.aor == aor && $0.callID == callID }
                    changes[node]?[HeldCallKey(aor: aor, callID: callID)] = nil
                }, to: .store(node))
        default: break
        }
    }

    /// Removes the calls of a node from the store, and returns them with their states.
    private func takenFrom(_ node: Int) -> [HeldInvite] {
        (held.removeValue(forKey: node) ?? []).map { invite in
            HeldInvite(
                aor: invite.aor, callID: invite.callID, request: invite.request, source: invite.source,
                until: invite.until,
                call: StoredCall(changes: changes[node]?[invite.key] ?? [], request: invite.request))
        }
    }

    private func write(_ changes: [EngineChange], _ ticket: CommitTicket?, of node: Int) {
        add(
            { [self] in
                let isStored = !isStoreAway
                if isStored {
                    disk.queue(changes, nil)
                    _ = disk.commit()
                }
                guard let ticket else { return }
                add(
                    { [self] in
                        engines[node].committed(ticket, succeeded: isStored && !losesConfirmations, now: now)
                        take(from: node)
                    }, to: .answers(node))
            }, to: .store(node))
    }

    private func keep(_ invite: HeldInvite, at node: Int) {
        if held[node]?.contains(where: { $0.key == invite.key }) != true { held[node, default: []].append(invite) }
    }

    private func read(_ ticket: ReadTicket, _ subjects: [UserSubject], waiting announced: Announcement?, of node: Int) {
        add(
            { [self] in
                if let announced, !isStoreAway {
                    waiting[announced.aor, default: []].insert(node)
                    if let invite = announced.invite { keep(invite, at: node) }
                }
                let accounts = subjects.compactMap { subject -> DigestUser? in
                    guard case .account(let name, let realm) = subject else { return nil }
                    return self.users.user(named: name, realm: realm)
                }
                let users =
                    isStoreAway ? nil : StoredUsers(users: subjects.compactMap { disk.user($0) }, accounts: accounts)
                add(
                    { [self] in
                        engines[node].usersRead(ticket, users, now: now)
                        take(from: node)
                    }, to: .answers(node))
            }, to: .store(node))
    }

    private func search(_ question: ContactSearch.Question, of node: Int) {
        ask(node) { [self] in
            pages += 1
            return isStoreAway ? nil : disk.page(question)
        } answer: {
            $0.contactsFound(question, $1, now: $2)
        }
    }

    private func send(_ bytes: [UInt8], on flow: Flow, from node: Int) {
        guard flow.listener == 2, flow.transport == .tls else {
            return sent.append(Message(node: node, bytes: bytes, flow: flow))
        }
        let peer =
            flow.connection == 0
            ? engines.indices.first { Self.place($0) == flow.remote } : Int(flow.connection) % 100
        guard let peer else { return }
        exchanged += 1
        add(
            { [self] in
                guard !cut.contains([node, peer]), !cut.contains([peer, node]), !dead.contains(peer) else { return }
                // The opener of a connection sees the other node's port. The other node sees a port of the opener.
                let isOpener = flow.connection == 0 || flow.connection >= 200
                let remote = isOpener ? Endpoint(Self.address(node), 40_000) : Self.place(node)
                let connection = UInt64((isOpener ? 100 : 200) + node)
                let flow = Flow(transport: .tls, listener: 2, connection: connection, remote: remote)
                _ = engines[peer].namesProved(["node"], on: flow)
                receive(bytes, on: flow, at: peer)
            }, to: .link(from: node, to: peer))
    }
}
