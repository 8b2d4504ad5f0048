import Reactor
import Timekeeping

/// Sends, retransmits and counts the REGISTER transactions of the phones.
final class RegisterClient {
    /// Receives the status of the final response to a user's REGISTER; 0 for no response.
    var finished: (_ user: Int, _ status: Int) -> Void = { _, _ in }

    private(set) var accepted = 0
    private(set) var refused = 0
    private(set) var unanswered = 0
    private(set) var sentAgain = 0
    private(set) var latencies = Samples()

    private let sockets: PhoneSockets
    private let loop: EventLoop
    private var slots: [Slot] = []
    private var free: [Int] = []
    private var timer: LoopTimer?
    private var lastGeneration: UInt64 = 0

    /// One REGISTER transaction. The Via branch contains the slot's index and generation, so that late responses to
    /// earlier transactions are recognised.
    private struct Slot {
        var user = 0
        var cseq = 0
        var generation: UInt64 = 0
        var first = Instant.distantPast
        var next = Instant.distantFuture
        var tries = 0
        var isBusy = false
    }

    private static let slotBits: UInt64 = 24
    /// The first interval of Timer E (RFC 3261 section 17.1.2.2), which doubles with each retransmission.
    private static let retransmission: Duration = .milliseconds(500)
    private static let tries = 6

    init(_ sockets: PhoneSockets, on loop: EventLoop) throws(BenchmarkError) {
        self.sockets = sockets
        self.loop = loop
        do {
            timer = try LoopTimer(on: loop) { [weak self] in self?.timerFired() }
        } catch {
            throw BenchmarkError("no timer: \(error)")
        }
        timer?.arm(at: loop.now + Self.retransmission / 2)
    }

    func forgetCounts() {
        (accepted, refused, unanswered, sentAgain) = (0, 0, 0, 0)
        latencies = Samples()
    }

    /// Sends a REGISTER of a user's phone; `cseq` must exceed the CSeq of the user's last REGISTER.
    func register(_ user: Int, cseq: Int) {
        let now = loop.now
        if free.isEmpty {
            free.append(slots.count)
            slots.append(Slot())
        }
        let number = free.removeLast()
        lastGeneration += 1
        slots[number] = Slot(
            user: user, cseq: cseq, generation: lastGeneration, first: now, next: now + Self.retransmission, tries: 1,
            isBusy: true)
        send(number)
    }

    func answered(branch: UInt64, status: Int) {
        let number = Int(branch & (1 << Self.slotBits - 1))
        guard status >= 200, number < slots.count, slots[number].isBusy,
            slots[number].generation == branch >> Self.slotBits
        else { return }
        if status < 300 { accepted += 1 } else { refused += 1 }
        latencies.add(from: slots[number].first, to: loop.now)
        finish(number, status)
    }

    private func finish(_ number: Int, _ status: Int) {
        slots[number].isBusy = false
        free.append(number)
        finished(slots[number].user, status)
    }

    private func send(_ number: Int) {
        let slot = slots[number]
        let socket = sockets.number(of: slot.user)
        let branch = slot.generation << Self.slotBits | UInt64(number)
        sockets.send(
            sockets.register(of: slot.user).message(user: slot.user, cseq: slot.cseq, branch: branch), from: socket)
    }

    private func timerFired() {
        let now = loop.now
        timer?.arm(at: now + Self.retransmission / 2)
        for number in slots.indices where slots[number].isBusy && slots[number].next <= now {
            guard slots[number].tries < Self.tries else {
                unanswered += 1
                finish(number, 0)
                continue
            }
            sentAgain += 1
            slots[number].next = now + Self.retransmission * (1 << slots[number].tries)
            slots[number].tries += 1
            send(number)
        }
    }
}
