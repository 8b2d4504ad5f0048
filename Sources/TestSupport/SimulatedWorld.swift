import Addressing
package import ProxyCore
import PushDelivery
import Registration
import SIPGrammar
import SIPMessage
package import Timekeeping

/// A day in the life of one daemon: phones, a PBX, a push provider, a network that loses datagrams, a disk, crashes.
///
/// Everything happens in simulated time from a seed, so a whole day takes milliseconds and a failing one comes back by
/// its seed. What must never happen is noted in ``violations`` when it happens.
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

        package init() {}
    }

    package let plan: Plan
    package private(set) var random: SeededGenerator
    package private(set) var now = Moment(
        instant: Instant(nanoseconds: 1_000_000_000), date: UnixTime(seconds: 1_790_000_000))
    package var violations: [String] = []

    package private(set) var engine: ProxyEngine
    private let makeEngine: (StoredState, UnixTime) -> ProxyEngine
    private let reader = SimulatedReader()
    private(set) var disk = SimulatedDisk()
    private var timeline = SimulatedTimeline()
    private var agenda = Agenda()
    private var engineTimer: Instant?

    package private(set) var phones: [SimulatedPhone] = []
    package private(set) var calls: [SimulatedCall] = []
    private var phoneAt: [Endpoint: Int] = [:]
    private var phoneOn: [UInt64: Int] = [:]
    private var cancelledPushes = Set<PushID>()
    private var lastConnection: UInt64 = 0
    /// Engines made so far: what an engine before a crash left in the air is not delivered to the next.
    private var generation = 0

    static let proxy = Endpoint(IPAddress(v4: 0x0a00_0001), 5060)
    static let pbx = Endpoint(IPAddress(v4: 0x0a00_0002), 5060)
    /// The ring timeout of 30 s, and time for a lost INVITE to be sent again.
    private static let longestHold: Duration = .seconds(45)

    package init(seed: UInt64, plan: Plan = Plan(), makeEngine: @escaping (StoredState, UnixTime) -> ProxyEngine) {
        self.plan = plan
        random = SeededGenerator(seed: seed)
        self.makeEngine = makeEngine
        engine = makeEngine(StoredState(), now.date)
        for user in 0..<plan.users {
            for device in 0..<Int.random(in: plan.devicesPerUser, using: &random) {
                let isOrdinary = random.chance(plan.ordinaryDevices)
                let transport: Transport = random.chance(plan.streamDevices) ? .tcp : .udp
                phones.append(
                    SimulatedPhone(
                        number: phones.count, user: "u\(user)", name: "u\(user)d\(device)", isOrdinary: isOrdinary,
                        transport: transport))
            }
        }
    }

    // MARK: The day

    /// Lets the whole day pass, then a quiet evening in which every phone comes back.
    package func run() {
        for phone in phones.indices {
            at(random.milliseconds(0...20_000)) { $0.phoneWakes(phone) }
            planIdleWake(of: phone)
        }
        var start: Duration = .seconds(30)
        for number in 0..<plan.calls {
            start += random.milliseconds(100...20_000)
            at(start) { $0.callStarts(number) }
        }
        for _ in 0..<plan.crashes {
            at(.seconds(Int64.random(in: 60...max(61, start.components.seconds), using: &random))) { $0.crash() }
        }
        runUntil(now.instant + start + .seconds(400))
        // The evening: nobody calls, nothing is lost, and each phone comes back twice.
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
        while let next = [agenda.next, engineTimer].compactMap({ $0 }).min(), next <= end {
            advance(to: next)
            if engineTimer == next {
                engine.deadlineReached(now: now)
                drain()
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

    // MARK: The daemon

    private func drain() {
        while true {
            let actions = engine.takeActions()
            if actions.isEmpty { break }
            for action in actions { run(action) }
        }
        let rest = engine.nextDeadline
        engineTimer = rest.map { max($0, now.instant) }
    }

    private func run(_ action: ProxyAction) {
        switch action {
        case .send(let bytes, let flow): proxySent(bytes, on: flow)
        case .commit(let changes, let ticket):
            disk.queue(changes, ticket)
            planCommit()
        case .record(let changes), .recordLate(let changes):
            for case .timeline(let record) in changes { recorded(record) }
            disk.queue(changes, nil)
            planCommit()
        case .push(let request): pushRequested(request)
        case .reported: break
        case .cancelPush(let id):
            cancelledPushes.insert(id)
            engine.pushNoted(id, .withdrawn, now: now)
        case .resolve(_, let ticket):
            engine.resolved(ticket, to: [], now: now)
        }
    }

    private func planCommit() {
        let generation = generation
        at(random.milliseconds(1...6)) { world in
            guard world.generation == generation else { return }
            for ticket in world.disk.commit() { world.engine.committed(ticket, succeeded: true, now: world.now) }
            world.drain()
        }
    }

    /// The process dies; what was not committed is gone, and so are all connections.
    private func crash() {
        generation += 1
        for index in calls.indices where !calls[index].isOver { calls[index].sawCrash = true }
        for index in calls.indices { calls[index].reportsInFlightAtCrash.formUnion(calls[index].reportsUnderWay) }
        disk.dropQueue()
        timeline.crashed()
        engine = makeEngine(disk.restored(), now.date)
        for row in disk.bindings.values.sorted(by: { $0.id < $1.id }) { _ = engine.restore(row, now: now) }
        engine.restored(now: now)
        phoneOn = [:]
        for index in phones.indices where phones[index].transport == .tcp { phones[index].connection = nil }
        for phone in phones where phone.isAcknowledged {
            if !phone.isOrdinary, !disk.holdsToken(phone.token) {
                violate("lost the contact of \(phone.name) in a crash")
            }
        }
        drain()
    }

    /// Bytes arrive at the daemon.
    private func deliver(_ bytes: [UInt8], on flow: Flow) {
        let copies =
            flow.transport.isReliable || isQuiet
            ? 1 : random.chance(plan.loss) ? 0 : random.chance(plan.duplication) ? 2 : 1
        let generation = generation
        for _ in 0..<copies {
            at(random.milliseconds(5...60)) { world in
                guard !flow.transport.isReliable || world.generation == generation else { return }
                switch world.reader.read(bytes) {
                case .request(let request): world.engine.requestReceived(request, on: flow, now: world.now)
                case .response(let response):
                    world.noteResponse(response)
                    world.engine.responseReceived(response, on: flow, now: world.now)
                case .unusable(let unusable):
                    world.violate("the reader refused a simulated message: \(unusable.reason)")
                }
                world.drain()
            }
        }
    }

    private func proxySent(_ bytes: [UInt8], on flow: Flow) {
        let message = reader.read(bytes)
        if case .unusable(let unusable) = message { violate("the daemon sent what cannot be read: \(unusable.reason)") }
        let phone = flow.transport.isReliable ? phoneOn[flow.connection] : phoneAt[flow.remote]
        if let phone { checkSent(message, to: phone, on: flow) }
        if flow.transport.isReliable, flow.connection == 0 || phone == nil {
            let engine = engine
            at(.milliseconds(1)) { world in
                guard world.engine === engine else { return }
                world.engine.sendFailed(on: flow, now: world.now)
                world.drain()
            }
            return
        }
        let copies =
            flow.transport.isReliable || isQuiet
            ? 1 : random.chance(plan.loss) ? 0 : random.chance(plan.duplication) ? 2 : 1
        for _ in 0..<copies {
            at(random.milliseconds(5...60)) { world in
                if flow.remote == Self.pbx {
                    world.pbxReceived(message)
                } else if let phone {
                    world.phoneReceived(message, phone, on: flow)
                }
            }
        }
    }

    // MARK: The provider

    private func pushRequested(_ request: PushRequest) {
        let engine = engine
        timeline.pushAsked(request.id, now: now.instant)
        engine.pushNoted(request.id, .queued(app: "fcm"), now: now)
        engine.pushNoted(request.id, .sent, now: now)
        let fails = !isQuiet && random.chance(plan.pushFailure)
        let phone = phones.firstIndex { $0.token == request.token.prid }
        if case .missedCalls(let missed) = request.message, let phone {
            for call in missed { markReport(of: call.remoteURI.string, by: phone) { $0.reportsUnderWay.insert(phone) } }
        }
        at(random.milliseconds(30...300)) { world in
            guard world.engine === engine, !world.cancelledPushes.contains(request.id) else { return }
            if !fails, let phone { world.pushArrived(request.message, at: phone) }
            let outcome = fails ? PushOutcome.credentialsRefused("simulated") : .accepted(nil)
            let answer = PushStep.answered(outcome, status: fails ? 403 : 200, problem: nil)
            for step in [answer, .finished(outcome)] { world.engine.pushNoted(request.id, step, now: world.now) }
            world.engine.pushFinished(request.id, outcome: outcome, now: world.now)
            world.drain()
        }
    }

    private func pushArrived(_ message: PushMessage, at phone: Int) {
        switch message {
        case .incomingCall:
            phones[phone].pushes += 1
            if random.chance(plan.wakes) { at(random.milliseconds(200...4_000)) { $0.phoneWakes(phone) } }
        case .missedCalls(let missed):
            for call in missed {
                markReport(of: call.remoteURI.string, by: phone) { $0.reports[phone, default: 0] += 1 }
            }
        case .silent, .notification: break
        }
    }

    private func markReport(of caller: String, by phone: Int, _ mark: (inout SimulatedCall) -> Void) {
        guard let index = calls.firstIndex(where: { $0.caller == caller }) else {
            violate("reported a call that never was: \(caller)")
            return
        }
        mark(&calls[index])
    }

    // MARK: Phones

    /// The app comes to life: a new connection or port, a new REGISTER.
    private func phoneWakes(_ phone: Int) {
        let hadConnection = phones[phone].connection
        if let hadConnection { phoneOn[hadConnection] = nil }
        phones[phone].wake(port: UInt16.random(in: 20_000...60_000, using: &random))
        phoneAt = phoneAt.filter { $0.value != phone }
        phoneAt[phones[phone].endpoint] = phone
        if phones[phone].transport == .tcp {
            lastConnection += 1
            phones[phone].connection = lastConnection
            phoneOn[lastConnection] = phone
        }
        sendRegister(of: phone, attempt: 0)
    }

    private func flow(of phone: Int) -> Flow {
        let phone = phones[phone]
        return Flow(
            transport: phone.transport, listener: phone.transport == .tcp ? 1 : 0, connection: phone.connection ?? 0,
            remote: phone.endpoint)
    }

    private func sendRegister(of phone: Int, attempt: Int) {
        let current = phones[phone].registrations
        deliver(phones[phone].registerText(), on: flow(of: phone))
        guard attempt < 8 else { return }
        at(.milliseconds(500 << min(attempt, 3))) { world in
            guard world.phones[phone].registrations == current, !world.phones[phone].isRegistered else { return }
            if world.phones[phone].transport == .tcp, world.phones[phone].connection == nil {
                world.phoneWakes(phone)
                return
            }
            world.sendRegister(of: phone, attempt: attempt + 1)
        }
    }

    private func phoneRefreshes(_ phone: Int) {
        guard phones[phone].isRegistered, flow(of: phone).connection != 0 || !phones[phone].transport.isReliable else {
            return
        }
        phones[phone].refreshes += 1
        deliver(phones[phone].registerText(), on: flow(of: phone))
    }

    private func phoneReceived(_ message: ReadMessage, _ phone: Int, on flow: Flow) {
        guard phones[phone].isAwake, flow.transport.isReliable || phones[phone].endpoint == flow.remote else { return }
        switch message {
        case .response(let response):
            if response.cseq.method == .register, response.callID.string == phones[phone].registerCallID {
                if response.status.isSuccess {
                    phones[phone].registered()
                    if random.chance(plan.refreshes) { at(random.milliseconds(5...250)) { $0.phoneRefreshes(phone) } }
                }
            }
        case .request(let request): phoneReceived(request, phone, on: flow)
        case .unusable: break
        }
    }

    private func phoneReceived(_ request: SIPRequest, _ phone: Int, on flow: Flow) {
        let key = request.callID.string
        func answer(_ status: Status) {
            deliver(
                SIPText.response(
                    status, to: request, tag: phones[phone].name, contact: "sip:\(phones[phone].name)@\(flow.remote)"),
                on: self.flow(of: phone))
        }
        switch request.method {
        case .invite:
            if let dialog = phones[phone].dialogs[key] {
                if let final = dialog.final, final.code >= 300 { answer(final) }
                return
            }
            phones[phone].dialogs[key] = SimulatedDialog(invite: request)
            let roll = Double.random(in: 0..<1, using: &random)
            at(random.milliseconds(50...500)) { _ in answer(.init(code: 180)) }
            let decision: Status? = roll < 0.5 ? 200 : roll < 0.6 ? 486 : roll < 0.65 ? 603 : nil
            guard let decision else { return }
            at(random.milliseconds(600...6_000)) { $0.phoneDecides(phone, key, decision, request) }
        case .cancel:
            answer(.ok)
            guard let dialog = phones[phone].dialogs[key], dialog.final == nil else { return }
            phones[phone].dialogs[key]?.final = .requestTerminated
            repeatFinal(phone, key, .requestTerminated, dialog.invite, attempt: 0)
        case .ack: phones[phone].dialogs[key]?.isAcknowledged = true
        default: answer(.ok)
        }
    }

    private func phoneDecides(_ phone: Int, _ key: String, _ status: Status, _ invite: SIPRequest) {
        guard let dialog = phones[phone].dialogs[key], dialog.final == nil else { return }
        phones[phone].dialogs[key]?.final = status
        repeatFinal(phone, key, status, invite, attempt: 0)
    }

    /// Finals to an INVITE are sent again until the ACK comes (timer G, and RFC 3261 section 13.3.1.4 for 2xx).
    private func repeatFinal(_ phone: Int, _ key: String, _ status: Status, _ invite: SIPRequest, attempt: Int) {
        guard attempt < 10, phones[phone].dialogs[key]?.isAcknowledged == false else { return }
        deliver(
            SIPText.response(
                status, to: invite, tag: phones[phone].name, contact: "sip:\(phones[phone].name)@10.9.9.9"),
            on: flow(of: phone))
        at(.milliseconds(min(500 << attempt, 4_000))) {
            $0.repeatFinal(phone, key, status, invite, attempt: attempt + 1)
        }
    }

    // MARK: The PBX

    private func callStarts(_ number: Int) {
        let user = "u\(Int.random(in: 0..<plan.users, using: &random))"
        calls.append(SimulatedCall(caller: "c\(number)", user: user, callID: "call\(number)", startedAt: now.instant))
        let index = calls.count - 1
        // Who is pushed is decided when the INVITE arrives; note it then.
        sendInvite(index, attempt: 0)
        let patience = random.chance(0.4) ? random.milliseconds(500...12_000) : .seconds(60)
        at(patience) { $0.callerGivesUp(index) }
    }

    private func sendInvite(_ index: Int, attempt: Int) {
        guard attempt < 7, !calls[index].sawProvisional, calls[index].finals.isEmpty else { return }
        let call = calls[index]
        let bytes = SIPText.invite(
            to: call.user, from: call.caller, at: Self.pbx, callID: call.callID, branch: "pbx\(call.caller)")
        if calls[index].invite == nil, case .request(let request) = reader.read(bytes) { calls[index].invite = request }
        deliver(bytes, on: pbxFlow)
        at(.milliseconds(500 << attempt)) { $0.sendInvite(index, attempt: attempt + 1) }
    }

    private var pbxFlow: Flow { Flow(transport: .udp, listener: 0, connection: 0, remote: Self.pbx) }

    private func callerGivesUp(_ index: Int) {
        guard calls[index].finals.isEmpty, calls[index].sawProvisional, let invite = calls[index].invite else { return }
        calls[index].gaveUp = true
        let call = calls[index]
        if now.instant - call.startedAt > Self.longestHold, !call.sawCrash,
            !phones.contains(where: { $0.invited[call.callID] != nil })
        {
            violate("\(call.callID) is held although its time is over")
        }
        sendCancel(index, invite, attempt: 0)
    }

    private func sendCancel(_ index: Int, _ invite: SIPRequest, attempt: Int) {
        guard attempt < 8, !calls[index].cancelAnswered else { return }
        deliver(SIPText.hopRequest("CANCEL", for: invite), on: pbxFlow)
        at(.milliseconds(500 << min(attempt, 3))) { $0.sendCancel(index, invite, attempt: attempt + 1) }
    }

    private func pbxReceived(_ message: ReadMessage) {
        guard case .response(let response) = message,
            let index = calls.firstIndex(where: { $0.callID == response.callID.string }),
            let invite = calls[index].invite
        else {
            if case .request(let request) = message, request.method == .bye {
                deliver(SIPText.response(200, to: request, tag: "pbx"), on: pbxFlow)
            }
            return
        }
        if response.cseq.method == .cancel {
            calls[index].cancelAnswered = true
            return
        }
        guard response.cseq.method == .invite else { return }
        if response.status.isProvisional {
            calls[index].sawProvisional = true
            return
        }
        let isFirst = calls[index].finals.isEmpty
        if !calls[index].finals.contains(response.status) { calls[index].finals.append(response.status) }
        if response.status.isSuccess {
            let ack = SIPText.dialogRequest(
                "ACK", cseq: 1, invite: invite, answer: response, at: Self.pbx,
                branch: "ack\(calls[index].caller)\(response.to.tag?.string ?? "")")
            deliver(ack, on: pbxFlow)
            if isFirst {
                at(random.milliseconds(1_000...60_000)) { world in
                    let bye = SIPText.dialogRequest(
                        "BYE", cseq: 2, invite: invite, answer: response, at: Self.pbx,
                        branch: "bye\(world.calls[index].caller)")
                    world.deliver(bye, on: world.pbxFlow)
                }
            }
        } else {
            deliver(
                SIPText.hopRequest("ACK", for: invite, to: response.frame.firstValue(of: .to)?.string), on: pbxFlow)
        }
    }

    // MARK: Invariants

    func violate(_ sentence: String) { violations.append("\(now.instant.nanoseconds / 1_000_000) ms: \(sentence)") }

    /// What the daemon sends to a phone must have been earned: the REGISTER's 2xx first, and each call once.
    private func checkSent(_ message: ReadMessage, to phone: Int, on flow: Flow) {
        switch message {
        case .response(let response):
            if response.cseq.method == .register, response.status.isSuccess,
                response.callID.string == phones[phone].registerCallID
            {
                phones[phone].acknowledgedFlow = flow
                phones[phone].isAcknowledged = true
            }
        case .request(let request) where request.method == .invite:
            let branch = request.via.branch?.string ?? ""
            let known = phones[phone].invited[request.callID.string]
            if let known, known != branch { violate("\(phones[phone].name) got \(request.callID) twice") }
            phones[phone].invited[request.callID.string] = branch
            if known == nil, !phones[phone].isOrdinary, phones[phone].acknowledgedFlow != flow {
                violate("\(phones[phone].name) got \(request.callID) before its REGISTER's 200")
            }
            if request.uri.text.string.contains("pn-") { violate("a push parameter left in \(request.uri.text)") }
            if let index = calls.firstIndex(where: { $0.callID == request.callID.string }), calls[index].isOver,
                known == nil
            {
                violate("\(phones[phone].name) was called after \(request.callID) had ended")
            }
        case .request, .unusable: break
        }
    }

    /// What reached the daemon from a phone, as the bucket's rules see it (A21).
    private func noteResponse(_ response: SIPResponse) {
        guard response.cseq.method == .invite,
            let index = calls.firstIndex(where: { $0.callID == response.callID.string }),
            let phone = phones.firstIndex(where: { $0.name == response.to.tag?.string })
        else { return }
        if response.status.isSuccess, calls[index].finals.isEmpty || calls[index].finals.contains(200) {
            calls[index].wasAnswered = true
        }
        if response.status.code >= 180, response.status != 408, response.status != 503 {
            calls[index].reached.insert(phone)
        }
    }

    private func recorded(_ record: TimelineRecord) {
        for complaint in timeline.complaints(about: record) { violate(complaint) }
        if record.end == .unreachable,
            let index = calls.firstIndex(where: { $0.callID == record.callID.string })
        {
            calls[index].lostAPhone = true
        }
        if record.end == .answered,
            calls.first(where: { $0.callID == record.callID.string })?.wasAnswered == false
        {
            violate("the record of \(record.callID) says it was answered")
        }
    }

    private func checkEvening() {
        let whole = calls.filter { !$0.sawCrash && !$0.finals.isEmpty }.map(\.callID)
        for complaint in timeline.complaints(inEveningOf: engine, calls: whole, now: now.instant) { violate(complaint) }
        for call in calls {
            let label = "\(call.callID) to \(call.user)"
            if call.finals.count != 1, !call.sawCrash, !(call.finals.count == 2 && call.finals.contains(200)) {
                violate("\(label) ended with \(call.finals.map(\.code))")
            }
            for phone in phones where phone.user == call.user && !phone.isOrdinary {
                let reports = call.reports[phone.number] ?? 0
                let mayBeSpared = call.wasAnswered || call.reached.contains(phone.number)
                let isUncertain = call.sawCrash || call.reportsInFlightAtCrash.contains(phone.number)
                if reports > (isUncertain ? 2 : 1) { violate("\(label): \(phone.name) was told \(reports) times") }
                if reports > 0, mayBeSpared, !isUncertain, !call.lostAPhone {
                    violate("\(label): \(phone.name) was told of a call it had")
                }
                if reports == 0, !mayBeSpared, !isUncertain, call.finals.first != 404,
                    phone.firstRegistered < call.startedAt
                {
                    violate("\(label): \(phone.name) was never told")
                }
            }
        }
        let held = engine.heldCalls
        if !held.isEmpty { violate("\(held.count) calls are still held in the evening") }
    }
}

extension SimulatedWorld {
    /// What the day was made of: a day on which nothing happened proves nothing.
    package struct Statistics {
        package var answered = 0
        package var refused = 0
        package var cancelled = 0
        package var unanswered = 0
        package var withoutFinal = 0
        package var reports = 0
        package var pushes = 0
        package var records = 0
    }

    package var statistics: Statistics {
        var found = Statistics()
        for call in calls {
            switch call.finals.first?.code {
            case 200: found.answered += 1
            case 487: found.cancelled += 1
            case 480, 408: found.unanswered += 1
            case nil: found.withoutFinal += 1
            default: found.refused += 1
            }
            found.reports += call.reports.values.reduce(0, +)
        }
        found.pushes = phones.reduce(0) { $0 + $1.pushes }
        found.records = timeline.records.count
        return found
    }
}
