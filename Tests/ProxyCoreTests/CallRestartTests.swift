import Addressing
import Bytes
import ProxyCore
import PushDelivery
import Registration
import SIPGrammar
import Testing
import TestSupport
import Timekeeping

/// A daemon that is killed and started again while bob is called: text goes in, a story comes out, and the disk holds what
/// was written.
private final class RestartBench {
    private(set) var bench: EngineBench
    private(set) var disk = SimulatedDisk()
    private(set) var pushes: [PushRequest] = []
    /// What was sent since the last step, in its order.
    private(set) var sent: [ProxyAction] = []
    private var runs: UInt64 = 1
    private let change: (inout ProxySettings) -> Void
    /// Whether what is written reaches the disk.
    var written: [String] = []

    init(_ change: @escaping (inout ProxySettings) -> Void = { _ in }) {
        let all: (inout ProxySettings) -> Void = {
            $0.call.journal = true
            change(&$0)
        }
        self.change = all
        bench = EngineBench(all)
    }

    /// What was to be written meanwhile. It must stand in the same batch of actions as what follows from it, which is checked in
    /// ``told(_:)``.
    func journalled(_ body: () -> Void) -> [String] {
        written = []
        body()
        return written
    }

    /// Does all that the engine has ordered, commits as well.
    @discardableResult
    func told(_ actions: [ProxyAction]) -> [String] {
        var story: [String] = []
        sent = []
        var actions = actions
        while !actions.isEmpty {
            sent += actions
            story += ProxyCoreTests.story(actions).filter { $0 != "commit" }
            pushes += actions.pushes
            let begun = Set(disk.calls.values.map(\.callID)).union(actions.compactMap(\.begunCall))
            for case .incomingCall(let call) in actions.pushes.map(\.message) where bench.engine.settings.call.journal {
                #expect(begun.contains(call.callID))
            }
            for action in actions {
                switch action {
                case .commit(let changes, let ticket): disk.queue(changes, ticket)
                case .journal(let change):
                    disk.journal(change)
                    written.append(change.word)
                case .record(let changes): disk.queue(changes, nil)
                default: break
                }
            }
            for ticket in disk.commit() { bench.engine.committed(ticket, succeeded: true, now: bench.now) }
            actions = bench.take()
        }
        return story
    }

    @discardableResult
    func register(
        _ user: String = "bob", token: String? = "tok1", cseq: Int = 1, from place: Endpoint = EngineBench.phone
    )
        -> [String]
    {
        told(bench.receive(bench.registerText(user: user, token: token, cseq: cseq, from: place), from: place))
    }

    @discardableResult
    func invite(callID: String = "call1", branch: String = "i1", extra: [String] = []) -> [String] {
        told(bench.invite(callID: callID, branch: branch, extra: extra))
    }

    @discardableResult
    func accepted(_ place: Int = 0) -> [String] {
        bench.finish(pushes[place].id)
        return told(bench.take())
    }

    func pass(_ duration: Duration) -> [String] { told(bench.pass(duration)) }

    /// `kill -9`, and the next run.
    @discardableResult
    func crash(downFor duration: Duration = .seconds(1)) -> [String] {
        disk.dropQueue()
        runs += 1
        let now = bench.now
        let later = Moment(
            // The monotonic clock may begin anywhere.
            instant: Instant(nanoseconds: 5_000_000_000), date: now.date + duration)
        bench = EngineBench(restarting: disk, at: later, seed: runs, change)
        return told(bench.take())
    }

    /// The phone answers the last INVITE that it got.
    @discardableResult
    func answer(_ invite: SIPRequest?, _ status: Status, from place: Endpoint = EngineBench.phone) -> [String] {
        guard let invite else { return ["no INVITE"] }
        return told(bench.receive(SIPText.response(status, to: invite, tag: "p1"), from: place))
    }

    var lastINVITE: SIPRequest? { sent.bytes.compactMap(SIPText.readRequest).last { $0.method == .invite } }
    var lastResponse: SIPResponse? { sentResponse(sent) }

    func cancel() -> [String] { told(bench.cancel()) }

    /// The caller's ACK of the last final response.
    func acknowledge(_ response: SIPResponse?) -> [String] {
        guard let invite = readRequest(bench.inviteText()), let response else { return ["no response"] }
        let to = response.frame.firstValue(of: .to)?.string ?? ""
        let ack = SIPText.hopRequest("ACK", for: invite).replacing("To: <sip:bob@example.net>", with: "To: \(to)")
        return told(bench.receive(ack, from: EngineBench.pbx))
    }
}

/// Calls that survive the end of the process.
@Suite struct CallRestartTests {
    private static func held(_ change: @escaping (inout ProxySettings) -> Void = { _ in }) -> RestartBench {
        let bench = RestartBench(change)
        bench.register()
        _ = bench.pass(.seconds(60))
        bench.invite()
        return bench
    }

    private static func ringing() -> (bench: RestartBench, invite: SIPRequest?) {
        let bench = held()
        bench.accepted()
        bench.register(cseq: 2)
        let invite = bench.lastINVITE
        bench.answer(invite, 180)
        return (bench, invite)
    }

    /// The shell writes what is journalled before it does anything else that was ordered in the same moment.
    @Test func `a push, an INVITE and an end are ordered together with what is to be written before them`() {
        let bench = RestartBench()
        bench.register()
        #expect(bench.journalled { bench.invite() }.contains("begun 1"))
        #expect(bench.pushes.count == 1)
        bench.accepted()
        #expect(bench.journalled { bench.register(cseq: 2) }.contains("sent 0"))
        #expect(bench.lastINVITE != nil)
        let invite = bench.lastINVITE
        #expect(bench.journalled { bench.answer(invite, 486) }.contains("final"))
    }

    @Test func `a call that waits goes on: retransmissions, a phone that registers, its answer`() {
        let bench = Self.held()
        bench.accepted()
        #expect(bench.crash() == [])
        #expect(bench.invite() == ["100 invite > pbx"])
        #expect(bench.register(cseq: 2) == ["200 register > phone", "invite > phone"])
        let invite = bench.lastINVITE
        #expect(bench.answer(invite, 180) == ["180 invite > pbx"])
        #expect(bench.answer(invite, 200) == ["200 invite > pbx"])
        #expect(bench.pass(.seconds(40)).isEmpty)
        #expect(bench.disk.calls.isEmpty)
    }

    @Test func `a push that was accepted is not sent again, one under way is sent as the same`() throws {
        let accepted = Self.held()
        accepted.accepted()
        #expect(accepted.crash() == [])
        let underWay = Self.held()
        let code = try #require(underWay.pushes.first?.code)
        #expect(underWay.crash() == ["push invite tok1"])
        #expect(underWay.pushes.last?.code == code && underWay.pushes.count == 2)
        #expect(underWay.accepted(1) == [])
        #expect(underWay.crash() == [])
    }

    @Test func `the wait goes on by the clock on the wall`() {
        let bench = Self.held()
        bench.accepted()
        _ = bench.pass(.seconds(10))
        bench.crash(downFor: .seconds(5))
        #expect(bench.pass(.seconds(14)) == [])
        #expect(bench.pass(.seconds(2)) == ["480 invite > pbx", "480 invite > pbx"])
        let late = Self.held()
        late.accepted()
        late.crash(downFor: .seconds(100))
        #expect(late.pass(.zero) == ["480 invite > pbx"])
    }

    @Test func `a clock that was set back gives a call no more time than it had`() {
        let bench = Self.held()
        bench.accepted()
        bench.crash(downFor: .seconds(-3600))
        #expect(bench.pass(.seconds(31)).contains("480 invite > pbx"))
    }

    @Test func `a CANCEL ends it, and the phone that comes then hears of a missed call`() {
        let bench = Self.held()
        bench.accepted()
        bench.crash()
        #expect(bench.cancel() == ["200 cancel > pbx", "487 invite > pbx"])
        #expect(bench.acknowledge(bench.lastResponse) == [])
        #expect(bench.register(cseq: 2).contains { $0.hasPrefix("push missed") })
        _ = bench.pass(.seconds(1))
        #expect(bench.disk.calls.isEmpty)
    }

    @Test func `a phone that rings is reached, and its answer reaches the caller`() {
        let (bench, invite) = Self.ringing()
        // It is sent once more, so that the phone says where it is.
        #expect(bench.crash() == ["invite > phone"])
        #expect(bench.lastINVITE?.via.branch == invite?.via.branch)
        #expect(bench.answer(invite, 180) == ["180 invite > pbx"])
        #expect(bench.answer(invite, 200) == ["200 invite > pbx"])
        // A missing ACK, in the run that it was answered in and in the next.
        #expect(bench.answer(invite, 200) == ["200 invite > pbx"])
        #expect(bench.crash() == [])
        #expect(bench.answer(invite, 200) == ["200 invite > pbx"])
        #expect(bench.pass(.seconds(40)).isEmpty)
        #expect(bench.disk.calls.isEmpty)
    }

    @Test func `a CANCEL reaches a phone that rings`() {
        let (bench, invite) = Self.ringing()
        bench.crash()
        #expect(bench.cancel() == ["200 cancel > pbx"])
        #expect(bench.answer(invite, 180) == ["cancel > phone"])
        #expect(bench.answer(invite, 487) == ["ack > phone", "487 invite > pbx"])
    }

    @Test func `a call that was cancelled is cancelled still`() {
        let (bench, invite) = Self.ringing()
        #expect(bench.cancel() == ["200 cancel > pbx", "cancel > phone"])
        #expect(bench.crash() == ["invite > phone"])
        #expect(bench.answer(invite, 487) == ["ack > phone", "487 invite > pbx"])
    }

    @Test func `a final response that was not acknowledged is sent again, as it was`() {
        let (bench, invite) = Self.ringing()
        #expect(bench.answer(invite, 486) == ["ack > phone", "486 invite > pbx"])
        let first = bench.sent.bytes.last
        #expect(bench.crash() == ["486 invite > pbx"])
        #expect(bench.sent.bytes.last == first)
        #expect(bench.acknowledge(bench.lastResponse) == [])
        #expect(bench.pass(.seconds(10)).isEmpty)
        #expect(bench.crash() == [])
    }

    private static func stream(_ connection: UInt64) -> Flow {
        Flow(
            transport: .tcp, listener: 1, connection: connection,
            remote: Endpoint(EngineBench.phone.address, UInt16(40_000 + connection)))
    }

    private static func registerByStream(_ bench: RestartBench, _ connection: UInt64) -> [String] {
        let flow = stream(connection)
        return bench.told(
            bench.bench.receive(
                SIPText.register(
                    user: "bob", from: flow.remote, transport: .tcp, callID: "s", cseq: Int(connection),
                    branch: "s\(connection)",
                    contact: "<sip:bob@\(flow.remote);transport=tcp;pn-provider=fcm;pn-param=p;pn-prid=tok1>",
                    expires: 3600), on: flow))
    }

    /// A phone that rings over TCP when the daemon dies, and is back.
    private static func ringingByStream() -> (bench: RestartBench, first: SIPRequest?, second: SIPRequest?) {
        let bench = RestartBench()
        _ = registerByStream(bench, 1)
        _ = bench.pass(.seconds(60))
        bench.invite()
        bench.accepted()
        _ = registerByStream(bench, 2)
        let first = bench.lastINVITE
        if let first { bench.told(bench.bench.receive(SIPText.response(180, to: first, tag: "p1"), on: stream(2))) }
        #expect(bench.crash() == [])
        let story = registerByStream(bench, 3)
        #expect(story.contains { $0.hasPrefix("invite > 192") }, "\(story)")
        return (bench, first, bench.lastINVITE)
    }

    @Test func `a phone that came before its push was taken is not pushed again, however often the daemon is killed`() {
        let bench = RestartBench()
        _ = Self.registerByStream(bench, 1)
        _ = bench.pass(.seconds(60))
        bench.invite()
        _ = Self.registerByStream(bench, 2)
        #expect(bench.lastINVITE != nil && bench.pushes.count == 1)
        for _ in 0..<3 { #expect(bench.crash() == []) }
        #expect(bench.pushes.count == 1)
    }

    @Test func `a phone whose connection ended rings by its new one`() throws {
        let (bench, first, second) = Self.ringingByStream()
        #expect(first?.via.branch != second?.via.branch)
        let answer = SIPText.response(200, to: try #require(second), tag: "p1")
        #expect(bench.told(bench.bench.receive(answer, on: Self.stream(3))).contains("200 invite > pbx"))
    }

    @Test func `the answer that a phone gave while nobody listened counts when it is back`() throws {
        let (bench, first, second) = Self.ringingByStream()
        let met = SIPText.response(482, to: try #require(second), tag: "p1")
        #expect(!bench.told(bench.bench.receive(met, on: Self.stream(3))).contains("482 invite > pbx"))
        // In the run after that as well.
        bench.crash()
        _ = Self.registerByStream(bench, 4)
        let answer = SIPText.response(200, to: try #require(first), tag: "p1")
        #expect(bench.told(bench.bench.receive(answer, on: Self.stream(4))).contains("200 invite > pbx"))
    }

    @Test func `when one phone answers, the others are cancelled`() {
        let bench = RestartBench()
        let other = Endpoint(EngineBench.phone.address, 41_000)
        bench.register()
        bench.register(token: nil, cseq: 1, from: other)
        _ = bench.pass(.seconds(60))
        bench.told(
            bench.bench.receive(
                bench.bench.registerText(token: nil, callID: "r2", from: other), from: other))
        bench.invite()
        let elsewhere = bench.lastINVITE
        bench.accepted()
        bench.register(cseq: 2)
        let invite = bench.lastINVITE
        bench.crash()
        bench.answer(elsewhere, 180, from: other)
        #expect(bench.answer(invite, 200).contains("200 invite > pbx"))
        #expect(
            bench.sent.bytes.compactMap(readRequest).contains { $0.method == .cancel })
    }

    @Test func `a device that is gone meanwhile is not waited for`() {
        let bench = Self.held { $0.call.ringTimeout = .seconds(60) }
        bench.accepted()
        bench.told(
            bench.bench.receive(bench.bench.registerText(cseq: 2, expires: 0), from: EngineBench.phone))
        #expect(bench.crash().filter { $0.hasPrefix("push") }.isEmpty)
    }

    @Test(arguments: [false, true])
    func `a call that is cancelled while its phone has said nothing since the start ends`(moves: Bool) {
        let (bench, _) = Self.ringing()
        bench.crash()
        #expect(bench.told(bench.bench.cancel()).contains("200 cancel > pbx"))
        _ = bench.pass(.seconds(5))
        if moves { bench.register(cseq: 3, from: Endpoint(EngineBench.phone.address, 7777)) }
        #expect(bench.pass(.seconds(40)).contains { $0.hasSuffix("invite > pbx") })
    }

    @Test func `without the setting nothing is kept`() {
        let bench = RestartBench { $0.call.journal = false }
        bench.register()
        bench.invite()
        #expect(bench.disk.calls.isEmpty)
        #expect(bench.crash() == [])
        #expect(bench.register(cseq: 2).contains("invite > phone") == false)
    }

    @Test func `a call is one record in the timeline, however many runs it takes`() {
        let (bench, invite) = Self.ringing()
        bench.crash()
        bench.answer(invite, 180)
        bench.answer(invite, 200)
        let records = bench.sent.compactMap { action -> [TimelineRecord]? in
            guard case .trace(let changes) = action else { return nil }
            return changes.compactMap { if case .record(let record) = $0 { record } else { nil } }
        }.joined()
        #expect(records.count == 1 && records.first?.end == .answered)
    }
}

extension ProxyAction {
    /// The Call-ID of the call that is to be written.
    fileprivate var begunCall: ByteString? {
        guard case .journal(.begun(let call)) = self else { return nil }
        return call.callID
    }
}

extension CallChange {
    fileprivate var word: String {
        switch self {
        case .begun(let call): "begun \(call.branches.count)"
        case .branch(_, let number, let branch): branch.sent == nil ? "branch \(number)" : "sent \(number)"
        case .final: "final"
        case .over: "over"
        case .missed: "missed"
        }
    }
}
