import Addressing
import Bytes
import SIPGrammar
import SIPTransactions
import TestSupport
import Testing
import Timekeeping

@Suite("Two tables over an unreliable link")
struct LossyLinkTests {
    @Test(arguments: UInt64(1)...60)
    func `every request ends once for its user, and nothing is left over`(seed: UInt64) {
        var world = World(seed: seed, lossPercent: seed % 5 * 12, isReliable: false)
        world.run(requests: 40)
        world.check()
    }

    @Test(arguments: UInt64(1)...20)
    func `the same on a reliable transport`(seed: UInt64) {
        var world = World(seed: seed, lossPercent: 0, isReliable: true)
        world.run(requests: 40)
        world.check()
        #expect(world.strays == 0)
        #expect(world.outcomes.values.allSatisfy { $0.final != nil })
    }
}

/// A caller and a callee, each with a transaction table, and the messages in flight between them.
private struct World: ~Copyable {
    struct Outcome {
        var method = ""
        /// The first final response that the caller received; `nil` if the transaction timed out.
        var final: UInt16?
        var timedOut = false
        var endings = 0
    }

    private enum Event {
        case toCallee([UInt8]), toCaller([UInt8])
        case send(String), cancel(ClientTransactionID)
        case answer(ServerTransactionID, SIPRequest, UInt16)
        case repeatSuccess(ServerTransactionID, SIPRequest)
        case timers
    }

    private var random: SeededGenerator
    private let lossPercent: UInt64
    private let flow: Flow
    private var now = start
    private var serial = 0
    private var events: [(at: Instant, serial: Int, event: Event)] = []

    private var caller = TransactionTable(branchKey: BranchKey(1, 2))
    private var callee = TransactionTable(branchKey: BranchKey(3, 4))
    private(set) var outcomes: [ClientTransactionID: Outcome] = [:]
    private(set) var strays = 0
    /// The INVITEs to which the callee has not sent a final response.
    private var pending: [ServerTransactionID: SIPRequest] = [:]
    private var unacknowledged: [ByteString: Int] = [:]
    private var alive: Set<ServerTransactionID> = []

    init(seed: UInt64, lossPercent: UInt64, isReliable: Bool) {
        random = SeededGenerator(seed: seed)
        self.lossPercent = lossPercent
        flow = isReliable ? tcp : udp
    }

    mutating func run(requests: Int) {
        for _ in 0..<requests {
            schedule(.send(random.next() % 2 == 0 ? "INVITE" : "MESSAGE"), within: 20_000)
        }
        var steps = 0
        while let next = nextEvent(), steps < 200_000 {
            steps += 1
            now = max(now, next.at)
            happen(next.event)
        }
        #expect(steps < 200_000, "never comes to rest")
    }

    func check() {
        #expect(outcomes.count == 40)
        for outcome in outcomes.values {
            #expect(outcome.endings == 1, "\(outcome)")
            #expect((outcome.final != nil) != outcome.timedOut, "\(outcome)")
        }
        #expect(alive.isEmpty)
        #expect(caller.isEmpty && callee.isEmpty)
    }

    // MARK: Time

    private mutating func nextEvent() -> (at: Instant, event: Event)? {
        let first = events.indices.min { (events[$0].at, events[$0].serial) < (events[$1].at, events[$1].serial) }
        let deadlines = [caller.nextDeadline, callee.nextDeadline].compactMap { $0 }
        if let deadline = deadlines.min(), first.map({ events[$0].at > deadline }) ?? true {
            return (deadline, .timers)
        }
        guard let first else { return nil }
        let entry = events.remove(at: first)
        return (entry.at, entry.event)
    }

    private mutating func schedule(_ event: Event, within milliseconds: UInt64) {
        serial += 1
        let delay = Duration.milliseconds(Int64(random.next() % milliseconds))
        events.append((now + delay, serial, event))
    }

    private mutating func happen(_ event: Event) {
        var out: [TransactionOutput] = []
        switch event {
        case .timers:
            caller.deadlineReached(now: now, into: &out)
            callerDid(out)
            out = []
            callee.deadlineReached(now: now, into: &out)
            calleeDid(out)
        case .send(let method): send(method)
        case .cancel(let id):
            caller.cancel(id, reasons: [], now: now, into: &out)
            callerDid(out)
        case .toCaller(let bytes):
            guard let response = SIPText.readResponse(bytes) else { return }
            caller.responseReceived(response, now: now, into: &out)
            callerDid(out)
        case .toCallee(let bytes):
            guard let request = SIPText.readRequest(bytes) else { return }
            let match = callee.requestReceived(request, now: now, into: &out)
            calleeDid(out)
            serve(match, request)
        case .answer(let id, let request, let code):
            if request.method == .invite, code >= 200, pending.removeValue(forKey: id) == nil { return }
            respond(id, request, code)
        case .repeatSuccess(let id, let request):
            if unacknowledged[request.callID] != nil { respond(id, request, 200) }
        }
    }

    // MARK: The caller

    private mutating func send(_ method: String) {
        guard let id = caller.makeClientTransaction() else { return }
        var message = TestMessage(method, branch: caller.branchKey.branch(for: id, loopHash: 0).string)
        message.callID = "call-\(id.rawValue)"
        outcomes[id] = Outcome(method: method)
        var out: [TransactionOutput] = []
        caller.start(id, request: message.outgoing, on: flow, now: now, into: &out)
        callerDid(out)
        guard method == "INVITE" else { return }
        if random.next() % 3 == 0 { schedule(.cancel(id), within: 8000) }
    }

    private mutating func callerDid(_ outputs: [TransactionOutput]) {
        for output in outputs {
            switch output {
            case .send(let bytes, _): transmit { .toCallee(bytes) }
            case .responseReceived(let id, let response):
                guard response.status.isFinal else { continue }
                let code = response.status.code
                if let earlier = outcomes[id]?.final { #expect(earlier == 200 && code == 200) }
                outcomes[id]?.final = code
                #expect(outcomes[id]?.timedOut == false)
                if code == 200, outcomes[id]?.method == "INVITE" {
                    var ack = TestMessage("ACK", branch: "z9hG4bKack\(serial)")
                    ack.callID = response.callID.string
                    transmit { .toCallee(ack.text.bytes) }
                }
            case .clientRangTooLong(let id):
                serial += 1
                events.append((now, serial, .cancel(id)))
            case .clientTimedOut(let id):
                #expect(outcomes[id]?.final == nil)
                outcomes[id]?.timedOut = true
            case .clientEnded(let id): outcomes[id]?.endings += 1
            case .strayResponse: strays += 1
            case .clientTransportFailed, .provisionalDue, .serverTimedOut, .serverEnded:
                Issue.record("not expected at the caller")
            }
        }
    }

    // MARK: The callee

    private mutating func serve(_ match: RequestMatch, _ request: SIPRequest) {
        switch match {
        case .new(let key, _):
            guard let id = begin(key, request) else { return }
            if request.method == .invite {
                pending[id] = request
                respond(id, request, 100)
                schedule(.answer(id, request, 180), within: 3000)
                schedule(.answer(id, request, random.next() % 2 == 0 ? 200 : 486), within: 15_000)
            } else {
                if random.next() % 2 == 0 { respond(id, request, 100) }
                schedule(.answer(id, request, 200), within: 8000)
            }
        case .cancel(let key, let invite):
            guard let id = begin(key, request, cancelling: invite) else { return }
            respond(id, request, invite == nil ? 481 : 200)
            if let invite, let request = pending.removeValue(forKey: invite) { respond(invite, request, 487) }
        case .endToEndACK: unacknowledged[request.callID] = nil
        case .unanswered(let id): respond(id, request, 100)
        case .absorbed, .acknowledged: break
        }
    }

    private mutating func begin(
        _ key: TransactionKey, _ request: SIPRequest, cancelling invite: ServerTransactionID? = nil
    ) -> ServerTransactionID? {
        guard let id = callee.begin(key, for: request, cancelling: invite, respondOn: flow, now: now) else {
            Issue.record("no room")
            return nil
        }
        alive.insert(id)
        return id
    }

    /// Answers a request of the caller, and repeats a 2xx to INVITE until its ACK arrives (RFC 3261 section 13.3.1.4).
    private mutating func respond(_ id: ServerTransactionID, _ request: SIPRequest, _ code: UInt16) {
        var out: [TransactionOutput] = []
        callee.respond(id, status: Status(code: code), bytes: answer(request, Int(code)), now: now, into: &out)
        calleeDid(out)
        guard code == 200, request.method == .invite, flow == udp else { return }
        let count = unacknowledged[request.callID] ?? 0
        unacknowledged[request.callID] = count + 1
        guard count < 8 else { return }
        serial += 1
        events.append((now + .milliseconds(500 << min(count, 3)), serial, .repeatSuccess(id, request)))
    }

    private mutating func calleeDid(_ outputs: [TransactionOutput]) {
        for output in outputs {
            switch output {
            case .send(let bytes, _): transmit { .toCaller(bytes) }
            case .serverEnded(let id): #expect(alive.remove(id) != nil)
            case .serverTimedOut(let id): #expect(alive.contains(id))
            case .responseReceived, .clientTimedOut, .clientRangTooLong, .clientTransportFailed, .clientEnded,
                .strayResponse, .provisionalDue:
                Issue.record("not expected at the callee")
            }
        }
    }

    // MARK: The link

    private mutating func transmit(_ event: () -> Event) {
        guard flow == udp else {
            serial += 1
            events.append((now + .milliseconds(30), serial, event()))
            return
        }
        for _ in 0..<(random.next() % 10 == 0 ? 2 : 1) where random.next() % 100 >= lossPercent {
            schedule(event(), within: 800)
        }
    }
}
