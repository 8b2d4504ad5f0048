import Addressing
import Bytes
import Crypto
import Registration
import Routing
import SIPGrammar
import SIPMessage
import Synchronization
import TestSupport
import Timekeeping
import UpstreamRegistration

extension Endpoint {
    static func pbx(_ number: UInt8) -> Endpoint { Endpoint(IPAddress(v4: 0x0a00_0000 | UInt32(number)), 5060) }
}

/// An ``UpstreamAgent``, simulated PBXs, and a simulated network between them, in simulated time.
struct AgentWorld {
    struct Person {
        var password: String
        var isWakeable = true
        var fingerprint: UInt32 = 1
        var algorithms: [DigestAlgorithm] = [.md5, .sha256]
        var lastSign: UnixTime
        var lastCall: UnixTime?
    }

    enum Happening {
        case arrives([UInt8], at: Endpoint, RegisterNumber)
        case answer([UInt8], to: RegisterNumber, run: Int)
        case stored(UInt32, run: Int)
        case check(Endpoint)
    }

    static let start: Int64 = 1_780_000_000
    var agent: UpstreamAgent
    var pbxs: [Endpoint: SimulatedRegistrar] = [:]
    var people: [String: Person] = [:]
    var now = Moment(instant: Instant(nanoseconds: 0), date: UnixTime(seconds: start))
    var events: [UpstreamEvent] = []
    var lossRate = 0.0
    /// If `keepsOrders` is set, the REGISTERs that the agent has requested.
    var sent: [RegisterOrder] = []
    var keepsOrders = false
    var watchesByOptions = true
    private(set) var run = 0
    private var happenings = DeadlineQueue<Happening>()
    private var random: SeededGenerator
    private var knownUp: [Endpoint: Bool] = [:]
    private var storedCeiling: UInt32 = 0
    private var pending: Set<RegisterNumber> = []
    let domain: UpstreamDomain
    let functions: AgentFunctions
    static let upstream = UpstreamNumber(0)

    init(
        users: Int = 0, pbxs endpoints: [Endpoint] = [.pbx(1)], rate: Int = 50, expires: UInt32 = 3600,
        seed: UInt64? = nil, behaviour: SimulatedRegistrar.Behaviour = SimulatedRegistrar.Behaviour()
    ) {
        random = seed.map { SeededGenerator(seed: $0) } ?? SeededGenerator()
        domain = UpstreamDomain(
            domain: ByteString("pbx.test"), name: ByteString("sip:pbx.test"), realm: ByteString("pbx.test"),
            expires: expires, rate: rate)
        let source = RandomSource(seed: random.next())
        functions = AgentFunctions(
            code: { HashAlgorithm.sha256.digest(of: Array("secret".utf8) + $0) }, random: { source.next() })
        agent = UpstreamAgent([domain], ceiling: 0, functions: functions)
        for endpoint in endpoints {
            var pbx = SimulatedRegistrar()
            pbx.behaviour = behaviour
            for number in 0..<users { pbx.passwords["u\(number)"] = "pw\(number)" }
            pbxs[endpoint] = pbx
            knownUp[endpoint] = true
            _ = happenings.schedule(.check(endpoint), at: now.instant + .seconds(30))
        }
        order = endpoints
        perform { [order] agent, now, orders in
            agent.serversFound(
                order.map { UpstreamServer(transport: .udp, endpoint: $0) }, of: Self.upstream, now: now, into: &orders)
        }
        for number in 0..<users { add("u\(number)", password: "pw\(number)") }
    }

    private let order: [Endpoint]
    var pbx: SimulatedRegistrar {
        get { pbxs[order[0]] ?? SimulatedRegistrar() }
        set { pbxs[order[0]] = newValue }
    }

    // MARK: What our side does

    mutating func perform(_ body: (inout UpstreamAgent, Moment, inout [UpstreamOrder]) -> Void) {
        var orders: [UpstreamOrder] = []
        body(&agent, now, &orders)
        carryOut(orders)
    }

    mutating func add(_ name: String, password: String) {
        people[name] = Person(password: password, lastSign: now.date)
        register(name)
    }

    /// Tells the agent that a phone of the user has registered at the daemon.
    mutating func register(_ name: String, isFromEarlierRun: Bool = false) {
        guard var person = people[name] else { return }
        if !isFromEarlierRun { person.lastSign = now.date }
        person.isWakeable = true
        people[name] = person
        perform { agent, now, orders in
            agent.userIsWakeable(
                WakeableUser(
                    upstream: Self.upstream, name: ByteString(name),
                    algorithms: person.algorithms.reduce([]) { $0.union(DigestAlgorithms(of: $1)) },
                    fingerprint: person.fingerprint, lastSign: person.lastSign, lastCall: person.lastCall,
                    isFromEarlierRun: isFromEarlierRun), now: now, into: &orders)
        }
    }

    mutating func setPassword(_ password: String, of name: String) {
        people[name]?.password = password
        people[name]?.fingerprint += 1
        register(name)
    }

    mutating func end(_ name: String, _ reason: UpstreamEnd = .noDevice) {
        people[name]?.isWakeable = false
        perform { agent, now, orders in
            agent.userEnded(UpstreamUser(Self.upstream, ByteString(name)), reason, now: now, into: &orders)
        }
    }

    /// Simulates a crash of the daemon, which starts again after `pause`.
    mutating func crash(for pause: Duration) {
        run += 1
        pending = []
        agent = UpstreamAgent([], ceiling: 0, functions: functions)
        advance(by: pause)
        agent = UpstreamAgent([domain], ceiling: storedCeiling, functions: functions)
        for (name, person) in people.sorted(by: { $0.key < $1.key }) where person.isWakeable {
            register(name, isFromEarlierRun: true)
        }
        perform { [order] agent, now, orders in
            agent.serversFound(
                order.map { UpstreamServer(transport: .udp, endpoint: $0) }, of: Self.upstream, now: now, into: &orders)
        }
    }

    private mutating func carryOut(_ orders: [UpstreamOrder]) {
        for order in orders {
            switch order {
            case .tell(let event): events.append(event)
            case .abandon(let number): pending.remove(number)
            case .storeCeiling(let ceiling):
                _ = happenings.schedule(.stored(ceiling, run: run), at: now.instant + random.milliseconds(1...20))
            case .send(let order):
                if keepsOrders { sent.append(order) }
                pending.insert(order.number)
                guard let bytes = bytes(of: order) else { continue }
                guard !random.chance(lossRate) else { continue }
                _ = happenings.schedule(
                    .arrives(bytes, at: order.server.endpoint, order.number),
                    at: now.instant + random.milliseconds(1...30))
            }
        }
    }

    private func bytes(of order: RegisterOrder) -> [UInt8]? {
        let name = order.user.name.string
        guard let person = people[name] else { return nil }
        let user = DigestUser(
            name: order.user.name, realm: domain.realm, password: ByteString(person.password),
            algorithms: person.algorithms, functions: .forTests)
        let uri = OwnRegister.requestURI(of: domain.domain)
        let token = order.token
        let (contact, expires): (ByteString?, UInt32) =
            switch order.purpose {
            case .bind(let seconds): (ByteString("sip:\(token)@192.0.2.20:5060"), seconds)
            case .end: (ByteString("sip:\(token)@192.0.2.20:5060"), 0)
            case .query: (nil, 0)
            }
        return OwnRegister(
            domain: domain.domain, user: order.user.name,
            via: ByteString("SIP/2.0/UDP 192.0.2.20:5060;branch=z9hG4bK1"),
            callID: order.callID, cseq: order.cseq, tag: ByteString("t"), contact: contact, expires: expires,
            credentials: order.answer?.field(for: user, uri: uri, .forTests)
        ).bytes
    }

    // MARK: Time

    mutating func advance(by duration: Duration) {
        let end = now.instant + duration
        while true {
            let next = min(agent.nextDeadline ?? .distantFuture, happenings.nextDeadline ?? .distantFuture)
            guard next <= end else { break }
            move(to: max(next, now.instant))
            while let happening = happenings.popExpired(now: now.instant) { happen(happening) }
            perform { $0.due(now: $1, into: &$2) }
        }
        move(to: end)
    }

    private mutating func move(to instant: Instant) {
        now = Moment(
            instant: instant, date: UnixTime(milliseconds: Self.start * 1000 + instant.nanoseconds / 1_000_000))
    }

    private mutating func happen(_ happening: Happening) {
        switch happening {
        case .arrives(let bytes, let endpoint, let number):
            guard let response = pbxs[endpoint]?.answer(bytes, now: now.instant), !random.chance(lossRate) else {
                return
            }
            _ = happenings.schedule(
                .answer(response, to: number, run: run), at: now.instant + random.milliseconds(1...30))
        case .answer(let bytes, let number, let run):
            guard run == self.run, pending.remove(number) != nil,
                case .response(let response) = MessageReader().read(bytes.span, isStream: false)
            else { return }
            perform { $0.responded(to: number, RegisterResponse(response), now: $1, into: &$2) }
        case .stored(let ceiling, let run):
            storedCeiling = max(storedCeiling, ceiling)
            guard run == self.run else { return }
            perform { $0.ceilingStored(ceiling, now: $1, into: &$2) }
        case .check(let endpoint):
            _ = happenings.schedule(.check(endpoint), at: now.instant + .seconds(30))
            guard watchesByOptions else { return }
            let isUp = pbxs[endpoint]?.behaviour.isSilent == false
            guard knownUp[endpoint] != isUp else { return }
            knownUp[endpoint] = isUp
            perform { agent, now, orders in
                if isUp {
                    agent.serverCameBack(at: endpoint, now: now, into: &orders)
                } else {
                    agent.serverWentDown(at: endpoint, now: now, into: &orders)
                }
            }
        }
    }

    // MARK: What is true

    func state(_ name: String) -> RegistrationState? { status(name)?.state }
    func status(_ name: String) -> UpstreamStatus? { agent.status(of: UpstreamUser(Self.upstream, ByteString(name))) }
    func live(_ name: String) -> Int { pbx.live(name, now: now.instant).count }
    func user(_ name: String) -> UpstreamUser { UpstreamUser(Self.upstream, ByteString(name)) }
}

/// A source of random numbers, as a class so that closures can share it.
final class RandomSource: Sendable {
    private let state: Mutex<SeededGenerator>
    init(seed: UInt64) { state = Mutex(SeededGenerator(seed: seed)) }
    func next() -> UInt64 { state.withLock { $0.next() } }
}
