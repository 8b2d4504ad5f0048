import Addressing
import Bytes
import Calling
import ProxyCore
import ProxyPolicy
import PushDelivery
import PushPlanning
import Registration
import SIPGrammar
import TestSupport
import Testing
import Timekeeping

/// Bob with a desk phone, which has no push token, and with mobiles that sleep.
final class TurnBench {
    let bench: EngineBench
    static let desk = Endpoint(EngineBench.phone.address, 41_000)
    private(set) var invites: [String: SIPRequest] = [:]
    private var records: [TimelineRecord] = []

    init(_ change: (inout ProxySettings) -> Void = { _ in }) {
        bench = EngineBench {
            $0.call.asksConnections = false
            change(&$0)
        }
    }

    /// Registers the desk phone, and a mobile with the token `tok1`.
    static func bob(_ change: (inout ProxySettings) -> Void = { _ in }) -> TurnBench {
        let bench = TurnBench(change)
        bench.register(Self.desk, token: nil)
        bench.register(EngineBench.phone, token: "tok1")
        return bench
    }

    /// A bench whose mobile rings the given time after the desk phone.
    static func delayed(
        _ milliseconds: Int64 = 10_000, _ change: (inout ProxySettings) -> Void = { _ in }
    ) -> TurnBench {
        let bench = bob(change)
        bench.set { $0.delays = [.init(.push, milliseconds: milliseconds)] }
        return bench
    }

    func set(_ change: (inout CallRules) -> Void) {
        var rules = CallRules()
        change(&rules)
        bench.engine.rulesSet(StoredUserRules(aor: EngineBench.bob, rules: rules))
    }

    @discardableResult
    func register(_ place: Endpoint, token: String?, q: String = "", cseq: Int = 1, expires: Int = 3600) -> [String] {
        let push = token.map { ";pn-provider=fcm;pn-param=p;pn-prid=\($0)" } ?? ""
        let text = SIPText.register(
            user: "bob", from: place, callID: "r\(place.port)", cseq: cseq, branch: "r\(place.port)x\(cseq)",
            contact: "<sip:bob@\(place)\(push)>\(q)", expires: expires)
        let first = bench.receive(text, from: place)
        return said(first + bench.commitAll(in: first))
    }

    func call(_ extra: [String] = []) -> [String] { said(bench.invite(extra: extra)) }

    /// Sends the PBX's ACK to the final response of a call that failed.
    func acknowledge() {
        guard let invite = readRequest(bench.inviteText()) else { return }
        _ = bench.receive(SIPText.hopRequest("ACK", for: invite), from: EngineBench.pbx)
    }

    func cancel() -> [String] { said(bench.cancel()) }

    func pass(_ seconds: Double) -> [String] { said(bench.pass(.milliseconds(Int64(seconds * 1000)))) }

    @discardableResult
    func answer(_ status: Status, _ name: String, at place: Endpoint) -> [String] {
        guard let invite = invites[name] else { return ["no INVITE for \(name)"] }
        return said(
            bench.receive(SIPText.response(status, to: invite, tag: name, contact: "sip:bob@192.0.2.5"), from: place))
    }

    /// The last record of each device that has one, as omission and end.
    var lastRecords: [String] {
        records.map { "\($0.omission?.rawValue ?? "push") \($0.end?.rawValue ?? "open")" }
    }

    /// Whether the call is in the list of missed calls of the device with the given token.
    func isMissed(by token: String) -> Bool {
        let device = bench.targets.first { $0.pushToken?.prid.string == token }?.id
        return bench.engine.buckets.entries(of: EngineBench.bob).contains {
            $0.isOver && device.map($0.devices.contains) == true
        }
    }

    private func said(_ actions: [ProxyAction]) -> [String] {
        for case .send(let bytes, let flow) in actions {
            guard let request = readRequest(bytes), request.method == .invite else { continue }
            invites[Self.name(flow.remote)] = request
        }
        records += actions.records
        return story(actions).filter { !$0.hasPrefix("100 ") && $0 != "commit" && !$0.contains(" register > ") }.map {
            $0.replacing("\(Self.desk)", with: "desk").replacing("phone", with: "mobile")
        }
    }

    private static func name(_ place: Endpoint) -> String { place == desk ? "desk" : "mobile" }
}

@Suite("Devices that ring one after the other")
struct RingTurnTests {
    private static let (desk, mobile) = (TurnBench.desk, EngineBench.phone)

    // MARK: Delays

    @Test func `the mobile gets its push ten seconds after the desk phone got the INVITE`() {
        let bench = TurnBench.delayed()
        #expect(bench.call() == ["invite > desk"])
        bench.answer(180, "desk", at: Self.desk)
        #expect(bench.bench.engine.heldCalls.first?.delayed.count == 1)
        #expect(bench.pass(9.9).isEmpty)
        #expect(bench.pass(0.2) == ["push invite tok1"])
        #expect(bench.bench.engine.heldCalls.first?.waiting.count == 1)
        #expect(bench.register(Self.mobile, token: "tok1", cseq: 2) == ["invite > mobile"])
        #expect(bench.answer(200, "mobile", at: Self.mobile) == ["200 invite > pbx", "cancel > desk"])
        #expect(!bench.isMissed(by: "tok1"))
    }

    @Test func `nothing more is pushed after the desk phone has answered`() {
        let bench = TurnBench.delayed()
        _ = bench.call()
        #expect(bench.answer(200, "desk", at: Self.desk) == ["200 invite > pbx"])
        #expect(bench.pass(60).filter { $0.contains("push") }.isEmpty)
        #expect(bench.bench.engine.buckets.entries(of: EngineBench.bob).isEmpty)
        #expect(bench.lastRecords.contains("delayed answered-elsewhere"))
    }

    @Test func `a CANCEL before the turn leaves the mobile without push, and with a missed call`() {
        let bench = TurnBench.delayed()
        _ = bench.call()
        bench.answer(180, "desk", at: Self.desk)
        #expect(bench.cancel() == ["200 cancel > pbx", "cancel > desk"])
        bench.answer(487, "desk", at: Self.desk)
        #expect(bench.pass(60).filter { $0.contains("push") }.isEmpty)
        #expect(bench.isMissed(by: "tok1"))
        #expect(bench.lastRecords.contains("delayed caller-gave-up"))
        #expect(bench.register(Self.mobile, token: "tok1", cseq: 2) == ["push missed 103 tok1"])
    }

    @Test func `the mobile rings at once when the desk phone is busy`() {
        let bench = TurnBench.delayed()
        _ = bench.call()
        #expect(bench.answer(486, "desk", at: Self.desk) == ["ack > desk", "push invite tok1"])
        // The wait is now the ring timeout, and not ten seconds more.
        #expect(bench.pass(29.9).isEmpty)
        #expect(bench.pass(0.2) == ["486 invite > pbx"])
        #expect(bench.isMissed(by: "tok1"))
    }

    @Test func `a 6xx of the desk phone ends the call, and the mobile is never pushed`() {
        let bench = TurnBench.delayed()
        _ = bench.call()
        #expect(bench.answer(603, "desk", at: Self.desk) == ["ack > desk", "603 invite > pbx"])
        #expect(bench.pass(60).filter { $0.contains("push") }.isEmpty)
    }

    @Test func `without a desk phone the mobile does not wait for it`() {
        let bench = TurnBench()
        bench.register(Self.mobile, token: "tok1")
        bench.set { $0.delays = [.init(.push, milliseconds: 10_000)] }
        #expect(bench.call() == ["push invite tok1"])
    }

    @Test func `the wait for the mobile is the ring timeout after its turn`() {
        let bench = TurnBench.delayed()
        _ = bench.call()
        bench.answer(180, "desk", at: Self.desk)
        _ = bench.pass(10)
        #expect(bench.pass(29.9).isEmpty)
        // The desk phone still rings.
        #expect(bench.pass(0.2).isEmpty)
        #expect(bench.answer(480, "desk", at: Self.desk) == ["ack > desk", "480 invite > pbx"])
    }

    @Test func `a delay longer than the Expires of the INVITE never starts by its time, but after a failure`() {
        let bench = TurnBench.delayed(20_000)
        _ = bench.call(["Expires: 15"])
        bench.answer(180, "desk", at: Self.desk)
        #expect(bench.pass(30).isEmpty)
        let other = TurnBench.delayed(20_000)
        _ = other.call(["Expires: 15"])
        #expect(other.answer(486, "desk", at: Self.desk) == ["ack > desk", "push invite tok1"])
    }

    @Test func `a failure after the Expires of the INVITE ends the call`() {
        let bench = TurnBench.delayed(20_000)
        _ = bench.call(["Expires: 15"])
        bench.answer(180, "desk", at: Self.desk)
        _ = bench.pass(16)
        #expect(bench.answer(486, "desk", at: Self.desk) == ["ack > desk", "486 invite > pbx"])
        #expect(bench.isMissed(by: "tok1"))
    }

    // MARK: The device changes before its turn

    @Test func `a mobile that registers before its turn does not ring earlier, and gets the INVITE at its turn`() {
        let bench = TurnBench.delayed { $0.call.skipPushWithin = .seconds(60) }
        _ = bench.pass(120)
        _ = bench.call()
        bench.answer(180, "desk", at: Self.desk)
        _ = bench.pass(5)
        #expect(bench.register(Self.mobile, token: "tok1", cseq: 2).isEmpty)
        #expect(bench.pass(5.1) == ["invite > mobile"])
    }

    @Test func `a mobile that signs out before its turn is left out, and the call ends with the desk phone`() {
        let bench = TurnBench.delayed()
        _ = bench.call()
        bench.answer(180, "desk", at: Self.desk)
        #expect(bench.register(Self.mobile, token: "tok1", cseq: 2, expires: 0).isEmpty)
        #expect(bench.pass(20).isEmpty)
        #expect(bench.answer(486, "desk", at: Self.desk) == ["ack > desk", "486 invite > pbx"])
    }

    @Test func `if the only device of a group has signed out, the group after it rings at once`() {
        let bench = TurnBench { $0.call.ringOrder = .q }
        bench.register(Self.desk, token: nil)
        bench.register(Self.mobile, token: "tok1", q: ";q=0.5")
        let third = Endpoint(Self.mobile.address, 42_000)
        bench.register(third, token: "tok3", q: ";q=0.1")
        _ = bench.call()
        bench.register(Self.mobile, token: "tok1", q: ";q=0.5", cseq: 2, expires: 0)
        #expect(bench.answer(486, "desk", at: Self.desk) == ["ack > desk", "push invite tok3"])
    }

    // MARK: The order of q

    @Test func `with q the next group begins after the group time, and the first keeps ringing`() {
        let bench = TurnBench { $0.call.ringOrder = .q }
        bench.register(Self.desk, token: nil, q: ";q=0.9")
        bench.register(Self.mobile, token: "tok1", q: ";q=0.3")
        #expect(bench.call() == ["invite > desk"])
        bench.answer(180, "desk", at: Self.desk)
        #expect(bench.pass(14.9).isEmpty)
        #expect(bench.pass(0.2) == ["push invite tok1"])
        #expect(bench.answer(200, "desk", at: Self.desk) == ["200 invite > pbx"])
    }

    @Test func `in turn, the first group gets a CANCEL when the next begins`() {
        let bench = TurnBench {
            $0.call.ringOrder = .inTurn
            $0.call.groupTime = .seconds(5)
        }
        bench.register(Self.desk, token: nil, q: ";q=0.9")
        bench.register(Self.mobile, token: "tok1", q: ";q=0.3")
        _ = bench.call()
        bench.answer(180, "desk", at: Self.desk)
        #expect(bench.pass(5.1) == ["push invite tok1", "cancel > desk"])
        // A 2xx that crosses the CANCEL still counts.
        #expect(bench.answer(200, "desk", at: Self.desk).first == "200 invite > pbx")
    }

    @Test func `in turn, the wait for a sleeping phone ends when the next group begins`() {
        let bench = TurnBench {
            $0.call.ringOrder = .inTurn
            $0.call.groupTime = .seconds(5)
        }
        bench.register(Self.mobile, token: "tok1")
        bench.register(Self.desk, token: nil, q: ";q=0.3")
        #expect(bench.call() == ["push invite tok1"])
        #expect(bench.pass(5.1) == ["invite > desk"])
        #expect(bench.register(Self.mobile, token: "tok1", cseq: 2).filter { $0.hasPrefix("invite") }.isEmpty)
        #expect(bench.answer(486, "desk", at: Self.desk) == ["ack > desk", "486 invite > pbx"])
        #expect(bench.isMissed(by: "tok1"))
    }

    @Test func `the rules of the user take precedence over the settings`() {
        let bench = TurnBench { $0.call.ringOrder = .q }
        bench.register(Self.desk, token: nil)
        bench.register(Self.mobile, token: "tok1", q: ";q=0.3")
        bench.set { $0.order = .parallel }
        #expect(bench.call().sorted() == ["invite > desk", "push invite tok1"])
        let other = TurnBench()
        other.register(Self.desk, token: nil)
        other.register(Self.mobile, token: "tok1", q: ";q=0.3")
        other.set {
            $0.order = .q
            $0.groupMilliseconds = 500
        }
        #expect(other.call() == ["invite > desk"])
        other.answer(180, "desk", at: Self.desk)
        #expect(other.pass(0.6) == ["push invite tok1"])
    }

    // MARK: No phone wakes

    @Test func `a call is forwarded only after the last group`() {
        let bench = TurnBench.delayed {
            $0.upstream = NextHop("sip:10.0.0.2:5060")
            $0.call.noWake.action = .forward
            $0.call.noWake.target = NoWakeTarget("sip:vm-{{user}}@pbx.example.net")
        }
        // The desk phone is a second sleeping phone in this test.
        bench.register(Self.desk, token: "tok2", cseq: 2)
        bench.set {
            $0.delays = [
                .init(
                    .one(bench.bench.targets.first { $0.pushToken?.prid.string == "tok1" }?.id ?? .nobody, label: ""),
                    milliseconds: 10_000)
            ]
        }
        #expect(bench.call() == ["push invite tok2"])
        #expect(bench.pass(10.1) == ["push invite tok1"])
        #expect(bench.pass(29.8).isEmpty)
        #expect(bench.pass(0.2) == ["invite > pbx"])
    }

    @Test func `a call whose time ends before a turn is forwarded, and still waits for the phone that was pushed`() {
        let bench = TurnBench.delayed(20_000) {
            $0.upstream = NextHop("sip:10.0.0.2:5060")
            $0.call.noWake.action = .forward
            $0.call.noWake.target = NoWakeTarget("sip:vm-{{user}}@pbx.example.net")
        }
        bench.register(Self.desk, token: "tok2", cseq: 2)
        let later = bench.bench.targets.first { $0.pushToken?.prid.string == "tok1" }?.id ?? .nobody
        bench.set { $0.delays = [.init(.one(later, label: ""), milliseconds: 20_000)] }
        #expect(bench.call(["Expires: 15"]) == ["push invite tok2"])
        #expect(bench.pass(14.8).isEmpty)
        #expect(bench.pass(0.3) == ["invite > pbx"])
        #expect(bench.register(Self.desk, token: "tok2", cseq: 3).contains("invite > desk"))
        #expect(bench.pass(10).filter { $0.contains("tok1") }.isEmpty)
    }

    // MARK: kill -9

    @Test func `a call goes on with its groups after a crash`() {
        let bench = RestartBench()
        bench.register(token: nil, from: Self.desk)
        bench.told(bench.bench.receive(bench.bench.registerText(callID: "m"), from: Self.mobile))
        var rules = CallRules()
        rules.delays = [.init(.push, milliseconds: 10_000)]
        bench.keep(StoredUserRules(aor: EngineBench.bob, rules: rules))
        bench.invite()
        #expect(bench.pushes.isEmpty)
        bench.crash(downFor: .seconds(4))
        #expect(bench.pushes.isEmpty)
        #expect(bench.bench.engine.heldCalls.first?.delayed.count == 1)
        #expect(bench.pass(.seconds(5)).filter { $0.hasPrefix("push") }.isEmpty)
        #expect(bench.pass(.milliseconds(1100)).filter { $0.hasPrefix("push") } == ["push invite tok1"])
    }

    @Test(arguments: [true, false])
    func `a device whose turn came while the daemon was down, or whose rule is gone, rings at once`(isLate: Bool) {
        let bench = RestartBench()
        bench.register(token: nil, from: Self.desk)
        bench.told(bench.bench.receive(bench.bench.registerText(callID: "m"), from: Self.mobile))
        var rules = CallRules()
        rules.delays = [.init(.push, milliseconds: 10_000)]
        bench.keep(StoredUserRules(aor: EngineBench.bob, rules: rules))
        bench.invite()
        if !isLate { bench.keep(nil) }
        let told = bench.crash(downFor: .seconds(isLate ? 12 : 1))
        #expect(told.filter { $0.hasPrefix("push") } == ["push invite tok1"])
        bench.accepted()
        bench.register("bob", cseq: 2)
    }
}
