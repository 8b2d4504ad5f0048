import Addressing
import Collections
import Reactor
import Timekeeping

/// Calls at a steady rate to phones that are awake and answer immediately: INVITE, 200, ACK.
///
/// The caller repeats an unanswered INVITE every half second, until its time limit.
final class SteadyCalls {
    /// The number of calls with a 200 since ``begin()``.
    private(set) var taken = 0
    private(set) var refused = 0
    private(set) var givenUp = 0
    private(set) var latencies = Samples()

    private let loop: EventLoop
    private let daemon: Endpoint
    private let caller: UDPSocket
    private let phone: UDPSocket
    private let invites: MessageTemplate
    private let acks: MessageTemplate
    private let users: Int
    private var begun: [Instant?] = []
    private var again = Queue<(number: Int, due: Instant)>()
    private var timer: LoopTimer?

    private static let patience: Duration = .seconds(4)
    private static let pause: Duration = .milliseconds(500)

    init(daemon: Endpoint, users: Int, on loop: EventLoop) throws(BenchmarkError) {
        do {
            caller = try UDPSocket(boundTo: Endpoint(.loopbackV4, 0), on: loop, datagramLimit: 4096)
            phone = try UDPSocket(boundTo: Endpoint(.loopbackV4, 0), on: loop, datagramLimit: 4096)
        } catch {
            throw BenchmarkError("no socket: \(error)")
        }
        self.loop = loop
        self.daemon = daemon
        self.users = users
        invites = MessageTemplate(Self.invite.replacing("CALLER", with: "\(caller.local)"))
        acks = MessageTemplate(Self.ack.replacing("CALLER", with: "\(caller.local)"))
        do {
            try caller.receive { [weak self] batch in
                for index in 0..<batch.count { batch.withBytes(at: index) { self?.answered($0) } }
            }
            try phone.receive { [weak self] batch in
                for index in 0..<batch.count { batch.withBytes(at: index) { self?.called($0) } }
            }
            timer = try LoopTimer(on: loop) { [weak self] in self?.sendAgain() }
        } catch {
            throw BenchmarkError("no timer: \(error)")
        }
        timer?.arm(at: loop.now + Self.pause)
        for user in 0..<users {
            let text = Self.register.replacing("PHONE", with: "\(phone.local)")
            phone.queue(MessageTemplate(text).message(user: user, branch: UInt64(user)), to: daemon)
        }
    }

    func begin() {
        (taken, refused, givenUp) = (0, 0, 0)
        latencies = Samples()
    }

    func call() {
        let number = begun.count
        let now = loop.now
        begun.append(now)
        again.append((number, now + Self.pause))
        caller.queue(invites.message(user: number % users, branch: UInt64(number)), to: daemon)
    }

    func close() {
        caller.close()
        phone.close()
    }

    private func answered(_ bytes: Span<UInt8>) {
        guard case .response(let status, let branch) = Arrival(bytes), status >= 200, branch < begun.count else {
            return
        }
        let number = Int(branch)
        caller.queue(acks.message(user: number % users, branch: branch), to: daemon)
        guard let start = begun[number] else { return }
        begun[number] = nil
        if status < 300 {
            taken += 1
            latencies.add(from: start, to: loop.now)
        } else {
            refused += 1
        }
    }

    /// Lets the phone answer a call; the response has the header fields of the request in the same order.
    private func called(_ bytes: Span<UInt8>) {
        let text = String(decoding: bytes.indices.map { bytes[$0] }, as: UTF8.self)
        guard text.hasPrefix("INVITE ") else { return }
        var answer = "SIP/2.0 200 OK\r\n"
        for line in text.split(separator: "\r\n").dropFirst() {
            let name = line.prefix { $0 != ":" }
            guard Self.copied.contains(name) else { continue }
            answer += line + (name == "To" ? ";tag=p\r\n" : "\r\n")
        }
        answer += "Contact: <sip:phone@\(phone.local)>\r\nContent-Length: 0\r\n\r\n"
        phone.queue(Array(answer.utf8), to: daemon)
    }

    private func sendAgain() {
        let now = loop.now
        timer?.arm(at: now + .milliseconds(20))
        while let next = again.first, next.due <= now {
            _ = again.popFirst()
            guard let start = begun[next.number] else { continue }
            guard now - start < Self.patience else {
                begun[next.number] = nil
                givenUp += 1
                continue
            }
            caller.queue(invites.message(user: next.number % users, branch: UInt64(next.number)), to: daemon)
            again.append((next.number, now + Self.pause))
        }
    }

    private static let copied: Set<Substring> = ["Via", "From", "To", "Call-ID", "CSeq", "Record-Route"]

    private static let invite = text([
        "INVITE sip:w%uuuuuuu@\(MessageTexts.domain) SIP/2.0",
        "Via: SIP/2.0/UDP CALLER;branch=z9hG4bK%bbbbbbbbbbbbbbb;rport",
        "Max-Forwards: 70", "From: <sip:caller@\(MessageTexts.domain)>;tag=c%bbbbbbbbbbbbbbb",
        "To: <sip:w%uuuuuuu@\(MessageTexts.domain)>", "Call-ID: s%bbbbbbbbbbbbbbb", "CSeq: 1 INVITE",
        "Contact: <sip:caller@CALLER>", "Content-Length: 0",
    ])
    private static let ack = text([
        "ACK sip:w%uuuuuuu@\(MessageTexts.domain) SIP/2.0",
        "Via: SIP/2.0/UDP CALLER;branch=z9hG4bK%bbbbbbbbbbbbbbb;rport",
        "Max-Forwards: 70", "From: <sip:caller@\(MessageTexts.domain)>;tag=c%bbbbbbbbbbbbbbb",
        "To: <sip:w%uuuuuuu@\(MessageTexts.domain)>;tag=p", "Call-ID: s%bbbbbbbbbbbbbbb", "CSeq: 1 ACK",
        "Content-Length: 0",
    ])
    private static let register = text([
        "REGISTER sip:\(MessageTexts.domain) SIP/2.0", "Via: SIP/2.0/UDP PHONE;branch=z9hG4bKw%bbbbbbbbbbbbbb;rport",
        "Max-Forwards: 70", "From: <sip:w%uuuuuuu@\(MessageTexts.domain)>;tag=r",
        "To: <sip:w%uuuuuuu@\(MessageTexts.domain)>",
        "Call-ID: w%uuuuuuu", "CSeq: 1 REGISTER", "Contact: <sip:w%uuuuuuu@PHONE>", "Expires: 36000",
        "Content-Length: 0",
    ])

    private static func text(_ lines: [String]) -> String { lines.joined(separator: "\r\n") + "\r\n\r\n" }
}
