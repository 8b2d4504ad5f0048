import Addressing
import Bytes
import Collections
import Messaging
import ProxyCore
import ProxyPolicy
import PushDelivery
import Registration
import SIPGrammar
import TestSupport
import Testing
import Timekeeping

/// A bench in which the PBX sends MESSAGE requests to bob's phone.
private final class MessageBench {
    let bench: EngineBench
    private(set) var disk = SimulatedDisk()
    private(set) var pushes: [PushRequest] = []
    /// The MESSAGE requests that phones have received, in their order.
    private(set) var messages: [SIPRequest] = []
    private let change: (inout ProxySettings) -> Void

    init(store: Bool = false, _ change: @escaping (inout ProxySettings) -> Void = { _ in }) {
        self.change = {
            $0.messages.store = store
            change(&$0)
        }
        bench = EngineBench(self.change)
    }

    /// Creates a bench whose phone has registered and is asleep now.
    static func asleep(store: Bool = false, _ change: @escaping (inout ProxySettings) -> Void = { _ in })
        -> MessageBench
    {
        let bench = MessageBench(store: store, change)
        bench.register(expires: 60)
        _ = bench.pass(.seconds(100))
        return bench
    }

    static func text(
        _ words: String, _ number: Int, to user: String = "bob", from sender: String = "103", extra: [String] = []
    ) -> [UInt8] {
        let type = extra.contains { $0.hasPrefix("Content-Type") } ? [] : ["Content-Type: text/plain"]
        return SIPText.bytes(
            [
                "MESSAGE sip:\(user)@example.net SIP/2.0",
                "Via: SIP/2.0/UDP \(EngineBench.pbx);rport;branch=z9hG4bKm\(sender)x\(number)",
                "From: \"Caller \(sender)\" <sip:\(sender)@example.net>;tag=f\(number)",
                "To: <sip:\(user)@example.net>", "Call-ID: m\(sender)x\(number)", "CSeq: 1 MESSAGE",
                "Max-Forwards: 70",
            ] + type + extra, body: words)
    }

    @discardableResult
    func send(_ words: String, _ number: Int, from sender: String = "103", extra: [String] = []) -> [String] {
        tell(bench.receive(Self.text(words, number, from: sender, extra: extra), from: EngineBench.pbx))
    }

    func receive(_ bytes: [UInt8], from place: Endpoint = EngineBench.pbx) -> [String] {
        tell(bench.receive(bytes, from: place))
    }

    /// Lets a phone register, from the previous address or from another one.
    @discardableResult
    func register(
        token: String? = "tok1", callID: String = "r1", cseq: Int = 1, from place: Endpoint = EngineBench.phone,
        expires: Int = 3600
    ) -> [String] {
        tell(
            bench.receive(
                bench.registerText(token: token, callID: callID, cseq: cseq, from: place, expires: expires), from: place
            ))
    }

    /// Lets the phone wake up and register again.
    func wake(cseq: Int = 2) -> [String] { register(cseq: cseq) }

    /// Lets the phone answer the last MESSAGE.
    func answer(_ status: Status = 200, from place: Endpoint = EngineBench.phone) -> [String] {
        guard let last = messages.last else { return ["no MESSAGE"] }
        return tell(bench.receive(SIPText.response(status, to: last, tag: "b"), from: place))
    }

    func pass(_ duration: Duration) -> [String] { tell(bench.pass(duration)) }

    func finish(_ outcome: PushOutcome) -> [String] {
        guard let push = pushes.last else { return ["no push"] }
        bench.finish(push.id, outcome)
        return tell(bench.take())
    }

    /// Describes the actions, without commits, as text. Commits succeed immediately, unless a test sets ``commits`` to
    /// `false`.
    private func tell(_ actions: [ProxyAction]) -> [String] {
        var told: [String] = []
        var rest = actions
        while true {
            for action in rest { told += [note(action)].compactMap(\.self) }
            guard commits, case let tickets = disk.commit(), !tickets.isEmpty else { return told }
            for ticket in tickets { bench.engine.committed(ticket, succeeded: true, now: bench.now) }
            rest = bench.take()
        }
    }

    private func note(_ action: ProxyAction) -> String? {
        switch action {
        case .commit(let changes, let ticket): disk.queue(changes, ticket)
        case .record(let changes): disk.queue(changes, nil)
        case .push(let transmission):
            let push = transmission.push
            pushes.append(push)
            if case .notification(let notification) = push.message {
                return "push \(notification.text) \(push.token.prid)"
            }
        case .send(let bytes, _):
            if let request = readRequest(bytes), request.method == .message,
                !messages.contains(where: { $0.via.branch == request.via.branch })
            {
                messages.append(request)
            }
        default: break
        }
        return story([action]).first { $0 != "commit" }
    }

    var commits = true

    var words: [String] { messages.map(\.frame.body.string) }
    var waiting: Int { bench.engine.waitingMessages(of: EngineBench.bob).count }

    /// Creates an engine with the content of the disk, like the next run of the program.
    func restarted() -> ProxyEngine {
        var stored = disk.restored()
        stored.users = UserDirectory()
        let engine = EngineFixture.engine(stored, seed: 2, change)
        for row in disk.bindings.values { _ = engine.restore(row, now: bench.now) }
        engine.restored(now: bench.now)
        return engine
    }
}

/// Tests that nobody can abuse waiting messages (T25).
@Suite("Abuse of messages (T25)")
struct MessageTrustTests {
    private static let stranger = Endpoint(IPAddress(v4: 0xcb00_7109), 5060)

    @Test func `a stranger's message is asked for a password, and nothing is kept of it`() {
        let bench = EngineBench { $0.authenticates = true }
        let told = bench.receive(MessageBench.text("hello", 1), from: Self.stranger)
        #expect(story(told) == ["407 message > \(Self.stranger)"])
        #expect(bench.engine.waitingMessages(after: .beginning, limit: 99).elements.isEmpty)
    }

    @Test func `no message waits for a user without a phone that can be woken`() {
        let bench = MessageBench(store: true)
        #expect(bench.send("hello", 1) == ["404 message > pbx"])
        bench.register(token: nil, expires: 60)
        _ = bench.pass(.seconds(100))
        #expect(bench.send("hello", 2) == ["480 message > pbx"])
        #expect(bench.waiting == 0)
    }

    @Test func `one sender leaves room for others, and one user for other users`() {
        let bench = MessageBench.asleep(store: true) { $0.messages.maximumCount = 4 }
        for number in 1...2 { #expect(bench.send("x", number).contains("202 message > pbx")) }
        #expect(bench.send("x", 3) == ["503 message > pbx"])
        for number in 1...2 { #expect(bench.send("x", number, from: "104").contains("202 message > pbx")) }
        #expect(bench.send("x", 1, from: "105") == ["480 message > pbx"])
        #expect(bench.waiting == 4)
    }

    @Test func `bytes have limits as well`() {
        let bench = MessageBench.asleep(store: true) { $0.messages.maximumBytes = 65_536 }
        let long = String(repeating: "x", count: 20_000)
        #expect(bench.send(long, 1).contains("202 message > pbx"))
        #expect(bench.send(long, 2) == ["503 message > pbx"])
        #expect(bench.send(long, 1, from: "104").contains("202 message > pbx"))
        #expect(bench.send(long, 1, from: "105").contains("202 message > pbx"))
        #expect(bench.send(long, 1, from: "106") == ["480 message > pbx"])
    }

    @Test func `somebody else's message with the same Call-ID, tag and number is another message`() {
        let bench = MessageBench.asleep(store: true)
        #expect(bench.send("mine", 1).contains("202 message > pbx"))
        let copied = String(decoding: MessageBench.text("not mine", 1, from: "666"), as: UTF8.self)
            .replacing("Call-ID: m666x1", with: "Call-ID: m103x1")
        let told = bench.receive(Array(copied.utf8))
        #expect(told.contains("202 message > pbx"))
        #expect(bench.waiting == 2)
        // If a sender sends the same text in another transaction, the daemon treats the text as a new message.
        let again = String(decoding: MessageBench.text("more", 1), as: UTF8.self).replacing(
            "x1\r\nFrom", with: "y1\r\nFrom")
        #expect(bench.receive(Array(again.utf8)).contains("202 message > pbx"))
        #expect(bench.waiting == 3)
    }

    @Test func `a stored message has one Date, its own or ours`() throws {
        let bench = MessageBench.asleep(store: true)
        bench.send("plain", 1)
        bench.send("own", 2, extra: ["Date: Sat, 13 Nov 2010 23:29:00 GMT"])
        bench.send("said:\nDate: none\r\ndate: none", 3)
        _ = bench.wake()
        for _ in 1...3 { _ = bench.answer() }
        let dates = bench.messages.map { request in request.frame.values(of: .date).map(\.string) }
        #expect(dates.map(\.count) == [1, 1, 1])
        #expect(dates.dropFirst().first == ["Sat, 13 Nov 2010 23:29:00 GMT"])
    }

    @Test func `phones leave room for messages of the PBX`() {
        let bench = MessageBench.asleep(store: true) { $0.messages.maximumCount = 8 }
        var taken = 0
        for number in 0..<10 {
            let place = Endpoint(IPAddress(v4: 0xc633_6401 + UInt32(number)), 5060)
            if bench.receive(MessageBench.text("x", number, from: "p\(number)"), from: place)
                .contains("202 message > \(place)")
            {
                taken += 1
            }
        }
        #expect(taken == 6)
        #expect(bench.send("x", 100).contains("202 message > pbx"))
    }

    @Test func `however many come, a phone is woken once until it has been here`() {
        let bench = MessageBench.asleep(store: true)
        for number in 1...30 { bench.send("x", number) }
        #expect(bench.pushes.count == 1)
    }

    @Test func `messages take no call's push`() {
        let bench = MessageBench.asleep { $0.notificationsPerDevice = 2 }
        for number in 1...8 {
            bench.send("x", number)
            _ = bench.pass(.seconds(21))
        }
        #expect(bench.pushes.count < 8)
        #expect(story(bench.bench.invite()).contains("push invite tok1"))
    }

    @Test func `it goes to nobody before a REGISTER of that phone is accepted`() {
        let bench = MessageBench.asleep(store: true)
        bench.send("x", 1)
        bench.register(token: "other", callID: "r9", from: Self.stranger)
        #expect(bench.messages.isEmpty)
        // The REGISTER changes the store, so the commit comes first, then the 200, and then the waiting message.
        bench.commits = false
        let moved = Endpoint(IPAddress(v4: 0xc000_0206), 40_000)
        #expect(bench.register(callID: "r5", from: moved) == [])
        bench.commits = true
        #expect(bench.pass(.milliseconds(1)) == ["200 register > \(moved)", "message > \(moved)"])
    }
}

@Suite("Messages for phones that sleep (RFC 8599 section 5.6.2)")
struct MessageTests {
    // MARK: Messages without a store

    @Test func `a message wakes the phone, and the phone's response reaches the sender`() throws {
        let bench = MessageBench.asleep()
        #expect(bench.send("come home", 1) == ["push come home tok1"])
        #expect(bench.pushes.first?.isNotification == true)
        #expect(bench.wake() == ["200 register > phone", "message > phone"])
        #expect(bench.words == ["come home"])
        #expect(bench.answer() == ["200 message > pbx"])
        #expect(bench.waiting == 0)
        #expect(bench.pass(.seconds(60)) == [])
    }

    @Test func `a message for a phone that stays away gets one 480 after the time in the settings`() {
        let bench = MessageBench.asleep()
        bench.send("hello", 1)
        #expect(!bench.pass(.milliseconds(19_900)).contains { $0.hasPrefix("480") })
        #expect(bench.pass(.milliseconds(200)) == ["480 message > pbx"])
        #expect(bench.pass(.seconds(60)) == [])
        #expect(bench.wake() == ["200 register > phone"])
    }

    @Test func `its own Expires ends the wait sooner`() {
        let bench = MessageBench.asleep()
        bench.send("hello", 1, extra: ["Expires: 5"])
        #expect(bench.pass(.milliseconds(5100)).contains("480 message > pbx"))
    }

    @Test func `a phone that has gone although its registration is fresh is woken, and answers from where it is`() {
        let bench = MessageBench()
        bench.register()
        // Because the daemon does not know whether the phone can be reached, it sends the message and a push.
        #expect(bench.send("hello", 1) == ["message > phone", "push hello tok1"])
        #expect(!bench.pass(.milliseconds(3100)).contains("push hello tok1"))
        let moved = Endpoint(IPAddress(v4: 0xcb00_7102), 999)
        #expect(bench.register(callID: "r2", from: moved) == ["200 register > \(moved)", "message > \(moved)"])
        #expect(bench.answer(from: moved) == ["200 message > pbx"])
        // The daemon does not send the message to the phone's old address again.
        #expect(bench.pass(.seconds(60)) == [])
    }

    @Test func `a message to a phone whose TCP connection fails gets 480, not 500`() {
        let bench = MessageBench()
        let flow = Flow(transport: .tcp, listener: 1, connection: 7, remote: EngineBench.phone)
        let text = SIPText.register(
            user: "bob", from: EngineBench.phone, transport: .tcp, callID: "r1", cseq: 1, branch: "r1",
            contact: "<sip:bob@192.0.2.5;transport=tcp;pn-provider=fcm;pn-param=p;pn-prid=tok1>")
        _ = bench.bench.commitAll(in: bench.bench.receive(text, on: flow))
        bench.send("hello", 1)
        bench.bench.engine.sendFailed(on: flow, now: bench.bench.now)
        let told = bench.pass(.seconds(21))
        #expect(told.filter { $0.hasSuffix("message > pbx") && !$0.hasPrefix("100") } == ["480 message > pbx"])
    }

    @Test func `an awake phone gets messages one after the other, without a push`() {
        let bench = MessageBench { $0.call.ringLiveFlowWithin = .seconds(60) }
        bench.register()
        #expect(bench.send("one", 1) == ["message > phone"])
        #expect(bench.send("two", 2) == [])
        #expect(bench.answer() == ["200 message > pbx", "message > phone"])
        #expect(bench.answer() == ["200 message > pbx"])
        #expect(bench.words == ["one", "two"])
        #expect(bench.pass(.seconds(60)) == [] && bench.pushes.isEmpty)
    }

    @Test func `a phone on UDP that may be gone gets them with one push, and is not pushed again until it was here`() {
        let bench = MessageBench()
        bench.register()
        #expect(bench.send("one", 1) == ["message > phone", "push one tok1"])
        #expect(bench.send("two", 2) == [])
        #expect(bench.answer() == ["200 message > pbx", "message > phone"])
        #expect(bench.answer() == ["200 message > pbx"])
        #expect(bench.finish(.accepted(nil)) == [] && bench.waiting == 0)
    }

    @Test func `the sender gets the refusal of the phone`() {
        let bench = MessageBench.asleep()
        bench.send("hello", 1)
        _ = bench.wake()
        #expect(bench.answer(415) == ["415 message > pbx"])
        #expect(bench.waiting == 0)
    }

    @Test(arguments: [PushOutcome.tokenDead(since: nil), .payloadRefused("x")])
    func `a final failure of the push ends the wait of the message`(outcome: PushOutcome) {
        let bench = MessageBench.asleep()
        bench.send("hello", 1)
        #expect(bench.finish(outcome).contains("480 message > pbx"))
    }

    @Test(arguments: [
        ["Content-Type: application/im-iscomposing+xml"], ["Content-Type: message/imdn+xml;charset=utf-8"],
        ["Priority: Non-Urgent"],
    ])
    func `an automatic message wakes no phone, and is delivered with the next message`(extra: [String]) {
        let bench = MessageBench.asleep()
        #expect(bench.send("<x/>", 1, extra: extra) == [])
        #expect(bench.send("hello", 2) == ["push hello tok1"])
        _ = bench.wake()
        _ = bench.answer()
        #expect(bench.words == ["<x/>", "hello"])
    }

    @Test func `methods in the settings wake a phone as MESSAGE does`() {
        let options = { (number: Int) in MessageBench.text("", number).replacing("MESSAGE", with: "OPTIONS") }
        let bench = MessageBench.asleep()
        #expect(story(bench.bench.receive(options(1), from: EngineBench.pbx)) == ["480 options > pbx"])
        let other = MessageBench.asleep { $0.messages.methods = ["MESSAGE", "OPTIONS"] }
        #expect(story(other.bench.receive(options(1), from: EngineBench.pbx)) == ["push NotifyTextMessage tok1"])
    }

    @Test func `a push for a message contains only what the settings allow`() {
        let quiet = MessageBench.asleep { $0.messages.showsWords = false }
        #expect(quiet.send("secret", 1) == ["push New message tok1"])
        let anonymous = MessageBench.asleep()
        anonymous.send("hello", 1, extra: ["Privacy: id"])
        guard case .notification(let notification)? = anonymous.pushes.first?.message else {
            Issue.record("no push")
            return
        }
        #expect(notification.title.isEmpty)
    }

    // MARK: With a store

    @Test func `202 is sent after the commit, and the woken phone gets the messages in order`() {
        let bench = MessageBench.asleep(store: true)
        bench.commits = false
        #expect(bench.send("one", 1) == ["push one tok1"])
        bench.commits = true
        #expect(bench.pass(.milliseconds(1)) == ["202 message > pbx"])
        #expect(bench.send("two", 2) == ["202 message > pbx"])
        _ = bench.pass(.seconds(86_400))
        #expect(bench.wake() == ["200 register > phone", "message > phone"])
        #expect(bench.answer() == ["message > phone"])
        #expect(bench.answer() == [])
        #expect(bench.words == ["one", "two"])
        #expect(bench.messages.first?.frame.contains(.date) == true)
        #expect(bench.waiting == 0 && bench.disk.messages.isEmpty)
    }

    @Test func `a phone that does not answer is woken again, and gets the message again when it is back`() {
        let bench = MessageBench.asleep(store: true)
        bench.send("one", 1)
        _ = bench.wake()
        _ = bench.pass(.seconds(40))
        #expect(bench.pushes.count == 2)
        #expect(bench.wake(cseq: 3).contains("message > phone"))
        _ = bench.answer()
        #expect(bench.waiting == 0)
    }

    @Test func `what was answered 202 survives the end of the process, and is deleted when the phone has it`() throws {
        let bench = MessageBench.asleep(store: true)
        bench.send("one", 1)
        let engine = bench.restarted()
        #expect(engine.waitingMessages(of: EngineBench.bob).count == 1)
        // The sender repeats the message, because it has not received the 202.
        let again = try #require(readRequest(MessageBench.text("one", 1)))
        engine.requestReceived(again, on: EngineBench.udp(EngineBench.pbx), now: bench.bench.now)
        #expect(story(engine.takeActions()).contains("202 message > pbx"))
        #expect(engine.waitingMessages(of: EngineBench.bob).count == 1)
    }

    @Test func `it expires`() {
        let bench = MessageBench.asleep(store: true)
        bench.send("one", 1, extra: ["Expires: 100"])
        bench.send("two", 2)
        _ = bench.pass(.seconds(101))
        #expect(bench.waiting == 1 && bench.disk.messages.count == 1)
        _ = bench.pass(.seconds(604_800))
        #expect(bench.waiting == 0 && bench.disk.messages.isEmpty)
    }

    @Test func `a message that must be delivered at once or never is not stored`() {
        let bench = MessageBench.asleep(store: true)
        bench.send("one", 1, extra: ["Expires: 0"])
        #expect(bench.pass(.seconds(4)).contains("480 message > pbx"))
        #expect(bench.disk.messages.isEmpty)
    }

    @Test func `when all its phones are gone, the next one that comes gets it`() {
        let bench = MessageBench.asleep(store: true)
        bench.send("one", 1)
        _ = bench.finish(.tokenDead(since: nil))
        #expect(bench.waiting == 1)
        #expect(bench.register(token: "tok2", callID: "r2").contains("message > phone"))
    }

    @Test func `an operator removes it`() {
        let bench = MessageBench.asleep(store: true)
        bench.send("one", 1)
        let id = bench.bench.engine.waitingMessages(after: .beginning, limit: 99).elements.map(\.id)
        bench.bench.engine.messagesForgotten(id, now: bench.bench.now)
        #expect(bench.waiting == 0)
        #expect(bench.wake() == ["200 register > phone"])
    }
}
