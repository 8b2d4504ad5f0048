import Addressing
import Bytes
import Reactor
import SIPGrammar
import SIPMessage
import TestSupport
import Timekeeping

/// Calls to sleeping phones, one call for each user. Each call consists of INVITE, push, REGISTER and ACK, and
/// optionally of BYE.
///
/// ``hold(_:rate:)`` begins calls and ``wake(_:rate:)`` wakes their phones, so that many calls can wait together.
final class CallLoad {
    private(set) var calls: [CallProgress]
    /// The times from the INVITE to the push at the gateway, and from the REGISTER to the INVITE at the phone.
    private(set) var pushLatencies = Samples()
    private(set) var wakeLatencies = Samples()
    /// The number of retransmitted INVITEs and 200s since ``hold(_:rate:)`` began.
    private(set) var sentAgain = 0
    private var pushedCount = 0
    private var overCount = 0
    private(set) var completed = 0

    /// Whether the push provider of a user's app is slow. The load does not wait for pushes to a slow provider.
    private let isSlow: (Int) -> Bool
    private let loop: EventLoop
    /// The address for INVITEs.
    var target: Endpoint
    private let phones: PhoneSockets
    private let client: RegisterClient
    private let caller: UDPSocket
    private let invites: MessageTemplate
    private let reader = MessageReader()
    private let wait: LoopWait
    private var timer: LoopTimer?
    /// The users with an unanswered message, ordered by the time of the next retransmission. The load does not look at
    /// all users each time, because this would delay the measured calls.
    private var due = DeadlineQueue<Int>()

    private static let mark = Array("Call-ID: \(MessageTexts.callIDMark)".utf8)
    private static let retransmission: Duration = .milliseconds(500)
    private static let tries = 7
    private static let cseqOfWaking = 900_000
    /// The maximum duration of a step, longer than all retransmissions (64 times T1, RFC 3261 section 17.1.1.2).
    private static let patience: Duration = .seconds(35)

    init(
        users: Int, isSlow: @escaping (Int) -> Bool, daemon: Endpoint, phones: PhoneSockets, client: RegisterClient,
        caller: UDPSocket,
        on loop: EventLoop
    ) throws(BenchmarkError) {
        calls = Array(repeating: CallProgress(), count: users)
        self.isSlow = isSlow
        self.loop = loop
        target = daemon
        self.phones = phones
        self.client = client
        self.caller = caller
        invites = MessageTexts.invite(from: caller.local)
        wait = LoopWait(on: loop)
        do {
            timer = try LoopTimer(on: loop) { [weak self] in self?.timerFired() }
            try caller.receive { [weak self] batch in
                for index in 0..<batch.count { batch.withBytes(at: index) { self?.callerReceived($0) } }
                self?.wait.check()
            }
        } catch {
            throw BenchmarkError("cannot call: \(error)")
        }
    }

    // MARK: Steps

    /// Sends INVITEs to the users, and waits until the daemon holds all calls.
    ///
    /// - Returns: the number of held calls.
    func hold(_ users: Range<Int>, rate: Double) throws(BenchmarkError) -> Int {
        beginStep(users)
        sentAgain = 0
        let pacer = try Pacer(on: loop, rate: rate, count: users.count) { [unowned self] in
            invite(users.lowerBound + $0)
        } ended: { [unowned self] in
            wait.check()
        }
        _ = try wait.wait(atMost: .seconds(Double(users.count) / rate) + Self.patience) { [unowned self] in
            pacer.done == users.count && pushedCount + overCount >= users.count
        }
        return users.count { calls[$0].pushed != nil && !calls[$0].isOver }
    }

    /// Lets the users' phones register, and waits until all their held calls were answered or have failed.
    func wake(_ users: Range<Int>, rate: Double) throws(BenchmarkError) {
        beginStep(users)
        client.forgetCounts()
        client.finished = { [unowned self] user, status in calls[user].registerStatus = status }
        defer { client.finished = { _, _ in } }
        let pacer = try Pacer(on: loop, rate: rate, count: users.count) { [unowned self] in
            wake(users.lowerBound + $0)
        } ended: { [unowned self] in
            wait.check()
        }
        _ = try wait.wait(atMost: .seconds(Double(users.count) / rate) + Self.patience) { [unowned self] in
            pacer.done == users.count && overCount >= users.count
        }
    }

    /// Lets the users' callers hang up, and waits until all their calls have ended.
    func hangUp(_ users: Range<Int>, rate: Double) throws(BenchmarkError) {
        let pacer = try Pacer(on: loop, rate: rate, count: users.count) { [unowned self] in
            hangUp(users.lowerBound + $0)
        } ended: { [unowned self] in
            wait.check()
        }
        _ = try wait.wait(atMost: .seconds(Double(users.count) / rate) + Self.patience) { [unowned self] in
            pacer.done == users.count && users.allSatisfy { calls[$0].hasEnded }
        }
    }

    private func beginStep(_ users: Range<Int>) {
        (pushedCount, completed) = (0, 0)
        overCount = users.count { calls[$0].isOver }
        (pushLatencies, wakeLatencies) = (Samples(), Samples())
        timer?.arm(at: loop.now + Self.retransmission / 4)
    }

    // MARK: Caller

    private func invite(_ user: Int) {
        calls[user].invited = loop.now
        if isSlow(user) { pushedCount += 1 }
        sendInvite(user)
    }

    private func sendInvite(_ user: Int) {
        caller.queue(inviteBytes(user), to: target)
        scheduleRetransmission(user)
    }

    private func inviteBytes(_ user: Int) -> [UInt8] { invites.message(user: user, branch: UInt64(user)) }

    private func callerReceived(_ bytes: Span<UInt8>) {
        guard case .response(let response) = reader.read(bytes, isStream: false), let user = user(of: bytes) else {
            return
        }
        guard response.cseq.method == .invite else {
            calls[user].hasEnded = response.status.isFinal
            return
        }
        if response.status == .trying { calls[user].hasTrying = true }
        guard response.status.isFinal else {
            if calls[user].delivered == nil { calls[user].next = .distantFuture }
            return
        }
        acknowledge(response, of: user)
        guard calls[user].finalStatus == nil else { return }
        calls[user].finalStatus = Int(response.status.code)
        if response.status.isSuccess { calls[user].accepted = response } else { overCount += 1 }
    }

    private func acknowledge(_ response: SIPResponse, of user: Int) {
        guard case .request(let invite) = reader.read(inviteBytes(user).span, isStream: false) else { return }
        let ack =
            response.status.isSuccess
            ? inDialog("ACK", cseq: Int(invite.cseq.number), invite, response, branch: "a\(user)")
            : SIPText.hopRequest("ACK", for: invite, to: response.frame.firstValue(of: .to)?.string)
        caller.queue(ack, to: target)
    }

    private func hangUp(_ user: Int) {
        guard let accepted = calls[user].accepted,
            case .request(let invite) = reader.read(inviteBytes(user).span, isStream: false)
        else { return }
        calls[user].accepted = nil
        caller.queue(
            inDialog("BYE", cseq: Int(invite.cseq.number) + 1, invite, accepted, branch: "b\(user)"), to: target)
    }

    private func inDialog(
        _ method: String, cseq: Int, _ invite: SIPRequest, _ answer: SIPResponse, branch: String
    ) -> [UInt8] {
        SIPText.dialogRequest(method, cseq: cseq, invite: invite, answer: answer, at: caller.local, branch: branch)
    }

    // MARK: Push and phone

    func pushed(_ user: Int) {
        guard calls.indices.contains(user), let invited = calls[user].invited else { return }
        calls[user].pushes += 1
        guard calls[user].pushed == nil else { return }
        let now = loop.now
        calls[user].pushed = now
        pushLatencies.add(from: invited, to: now)
        pushedCount += 1
        wait.check()
    }

    private func wake(_ user: Int) {
        // A phone whose call was refused need not register.
        guard !calls[user].isOver else { return }
        calls[user].woken = loop.now
        client.register(user, cseq: Self.cseqOfWaking)
    }

    /// Lets a phone handle a request.
    func phoneReceived(_ bytes: Span<UInt8>, at socket: Int) {
        guard case .request(let request) = reader.read(bytes, isStream: false), let user = user(of: bytes) else {
            return
        }
        switch request.method {
        case .invite: invited(user, by: request, at: socket)
        case .ack:
            calls[user].next = .distantFuture
            calls[user].answer = []
            guard !calls[user].isAcknowledged else { return }
            calls[user].isAcknowledged = true
            completed += 1
            overCount += 1
        case .bye: phones.send(SIPText.response(.ok, to: request, tag: "p\(user)"), from: socket)
        default: break
        }
    }

    func batchEnded() { wait.check() }

    private func invited(_ user: Int, by request: SIPRequest, at socket: Int) {
        let contact = "sip:u@\(phones.local(socket))"
        if calls[user].delivered == nil {
            let now = loop.now
            calls[user].delivered = now
            if let woken = calls[user].woken { wakeLatencies.add(from: woken, to: now) }
            phones.send(SIPText.response(180, to: request, tag: "p\(user)", contact: contact), from: socket)
            calls[user].tries = 0
        }
        guard !calls[user].isAcknowledged else { return }
        calls[user].answer = SIPText.response(.ok, to: request, tag: "p\(user)", contact: contact)
        sendAnswer(user)
    }

    private func sendAnswer(_ user: Int) {
        phones.send(calls[user].answer, from: phones.number(of: user))
        scheduleRetransmission(user)
    }

    private func user(of bytes: Span<UInt8>) -> Int? {
        guard let number = ByteSearch.number(after: Self.mark, in: bytes) else { return nil }
        return calls.indices.contains(Int(truncatingIfNeeded: number)) ? Int(truncatingIfNeeded: number) : nil
    }

    // MARK: Retransmissions

    private func scheduleRetransmission(_ user: Int) {
        calls[user].tries += 1
        let next = loop.now + Self.retransmission * (1 << (calls[user].tries - 1))
        calls[user].next = next
        _ = due.schedule(user, at: next)
    }

    private func timerFired() {
        let now = loop.now
        timer?.arm(at: now + Self.retransmission / 4)
        while let user = due.popExpired(now: now) {
            // The user's message was answered in the meantime, or its retransmission is due later.
            guard calls[user].next <= now, !calls[user].isOver else { continue }
            guard calls[user].tries < Self.tries else {
                calls[user].next = .distantFuture
                continue
            }
            sentAgain += 1
            if calls[user].answer.isEmpty { sendInvite(user) } else { sendAnswer(user) }
        }
    }
}
