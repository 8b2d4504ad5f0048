import Addressing
import Bytes
import ProxyCore
import PushDelivery
import Registration
import SIPGrammar
import SIPMessage
import Testing
import TestSupport
import Timekeeping

@Suite("What the timeline says of a call")
struct TimelineStoryTests {
    private let bob = AddressOfRecord(user: ByteString("bob"), host: ByteString("example.net"))

    /// A call that was pushed for, with the provider's answer after 80 ms.
    private func pushed(
        _ bench: EngineBench, callID: String = "call1", outcome: PushOutcome? = .accepted(nil)
    ) throws -> PushID {
        bench.register()
        let id = try #require(bench.invite(callID: callID).pushIDs.first)
        bench.engine.pushNoted(id, .queued(app: "fcm"), now: bench.now)
        bench.engine.pushNoted(id, .sent, now: bench.now)
        _ = bench.pass(.milliseconds(80))
        guard let outcome else { return id }
        bench.engine.pushNoted(id, .answered(outcome, status: 200, problem: nil), now: bench.now)
        bench.engine.pushNoted(id, .finished(outcome), now: bench.now)
        return id
    }

    /// The phone's response to the last INVITE among the actions.
    private func answer(_ status: Status, _ actions: [ProxyAction], _ bench: EngineBench) throws -> [ProxyAction] {
        let request = try #require(actions.invites.last)
        return bench.receive(SIPText.response(status, to: request, tag: "p", contact: "sip:bob@192.0.2.5"))
    }

    @Test func `woken, called, answered`() throws {
        let bench = EngineBench()
        let id = try pushed(bench)
        let code = try #require(bench.engine.timeline.underWay { _ in true }.first?.code)
        bench.engine.pushFinished(id, outcome: .accepted(nil), now: bench.now)
        #expect(bench.take().records.isEmpty)
        _ = bench.pass(.milliseconds(2000))
        let released = bench.register(cseq: 2)
        _ = bench.pass(.milliseconds(100))
        #expect(try answer(180, released, bench).records.isEmpty)
        _ = bench.pass(.milliseconds(900))
        let record = try #require(try answer(200, released, bench).records.first)
        #expect(record.code == code)
        #expect(record.user == ByteString("bob") && record.host == ByteString("example.net"))
        #expect(record.callID == ByteString("call1"))
        #expect(record.end == .answered)
        let steps = record.steps
        #expect(
            [steps.sent, steps.answered, steps.registered, steps.invited, steps.rang, steps.ended] == [
                0, 80, 2080, 2080, 2180, 3080,
            ])
        #expect(bench.engine.timeline.count == 0)
    }

    @Test func `the REGISTER is noted when it comes, the INVITE when it goes`() throws {
        let bench = EngineBench()
        let id = try pushed(bench)
        bench.engine.pushFinished(id, outcome: .accepted(nil), now: bench.now)
        // From elsewhere: that has to be written first.
        let elsewhere = Endpoint(IPAddress(v4: 0xcb00_7101), 1234)
        let register = bench.receive(
            bench.registerText(callID: "r2", from: elsewhere), from: elsewhere)
        _ = bench.pass(.milliseconds(6))
        _ = bench.commitAll(in: register)
        let record = try #require(bench.engine.timeline.underWay { _ in true }.first)
        #expect(record.steps.registered == 80)
        #expect(record.steps.invited == 86)
    }

    @Test func `a phone that comes before the provider's answer`() throws {
        let bench = EngineBench()
        let id = try pushed(bench, outcome: nil)
        let released = bench.register(cseq: 2)
        #expect(story(released).contains("drop push"))
        bench.engine.pushNoted(id, .withdrawn, now: bench.now)
        let record = try #require(try answer(486, released, bench).records.first)
        #expect(record.delivery == .withdrawn)
        #expect(record.end == .refused)
        #expect(record.endStatus == 486)
    }

    @Test func `nobody comes`() throws {
        let bench = EngineBench()
        let id = try pushed(bench)
        bench.engine.pushFinished(id, outcome: .accepted(nil), now: bench.now)
        let record = try #require(bench.pass(.seconds(30)).records.first)
        #expect(record.end == .timeOver)
        #expect(record.answer == .accepted)
        #expect(record.steps.ended == 30_000)
        #expect(record.steps.registered == nil)
    }

    @Test func `the caller gives up`() throws {
        let bench = EngineBench()
        let id = try pushed(bench, outcome: nil)
        guard case .request(let invite) = MessageReader().read(bench.inviteText().span, isStream: false) else {
            Issue.record("the INVITE cannot be read")
            return
        }
        let cancelled = bench.receive(SIPText.hopRequest("CANCEL", for: invite), from: EngineBench.pbx)
        #expect(cancelled.records.isEmpty)
        bench.engine.pushNoted(id, .withdrawn, now: bench.now)
        #expect(bench.take().records.map(\.end) == [.callerGaveUp])
    }

    @Test(arguments: [
        (PushOutcome.tokenDead(since: nil), TimelineRecord.End.tokenDead), (.credentialsRefused("no"), .pushFailed),
        // From before the REGISTER: the contact stays.
        (.tokenDead(since: UnixTime(seconds: 1)), .pushFailed),
    ])
    func `a push that cannot be delivered`(outcome: PushOutcome, end: TimelineRecord.End) throws {
        let bench = EngineBench()
        let id = try pushed(bench, outcome: outcome)
        bench.engine.pushFinished(id, outcome: outcome, now: bench.now)
        #expect(bench.take().records.map(\.end) == [end])
    }

    @Test func `the other phone answers`() throws {
        let bench = EngineBench()
        _ = bench.register(token: "tok2", callID: "r9")
        _ = bench.pass(.seconds(1))
        let phone = try pushed(bench)
        let tablet = PushID(rawValue: phone.rawValue + 1)
        let released = bench.register(cseq: 2)
        let records = try answer(200, released, bench).records
        // The tablet's push is not yet taken back.
        #expect(records.map(\.end) == [.answered])
        #expect(bench.engine.timeline.count == 1)
        bench.engine.pushNoted(tablet, .withdrawn, now: bench.now)
        #expect(bench.take().records.map(\.end) == [.answeredElsewhere])
    }

    @Test func `the phone signs out while it is waited for`() throws {
        let bench = EngineBench()
        let id = try pushed(bench)
        bench.engine.pushFinished(id, outcome: .accepted(nil), now: bench.now)
        #expect(bench.register(cseq: 2, expires: 0).records.map(\.end) == [.signedOut])
    }

    @Test func `the phone gives no answer to the INVITE`() throws {
        let bench = EngineBench()
        let id = try pushed(bench)
        bench.engine.pushFinished(id, outcome: .accepted(nil), now: bench.now)
        bench.register(cseq: 2)
        let record = try #require(bench.pass(.seconds(40)).records.first)
        #expect(record.end == .noAnswer)
        #expect(record.steps.invited == 80)
    }

    // MARK: Without a push

    @Test func `nobody has that name`() {
        let record = EngineBench().invite().records.first
        #expect(record?.omission == .unknownUser)
        #expect(record?.endStatus == 404)
        #expect(record?.callID == ByteString("call1"))
        #expect(record?.isComplete == true)
    }

    @Test func `the phone has signed out`() {
        let bench = EngineBench { $0.authenticates = false }
        bench.engine.userAdded(DigestUser(name: ByteString("bob"), realm: ByteString("example.net"), ha1: [:]))
        #expect(bench.invite().records.map(\.omission) == [.noContact])
    }

    @Test func `calls to nobody do not fill the table`() {
        let bench = EngineBench()
        let count = (0..<1000).reduce(0) { count, number in
            count + bench.invite(callID: "c\(number)", branch: "b\(number)").records.count
        }
        #expect(count == 600)
    }

    @Test func `an ordinary contact`() throws {
        let bench = EngineBench()
        bench.register(token: nil)
        let record = try #require(try answer(200, bench.invite(), bench).records.first)
        #expect(record.omission == .ordinaryContact)
        #expect(record.steps.invited == 0)
        #expect(record.end == .answered)
    }

    @Test func `its provider is switched off`() throws {
        let bench = EngineBench()
        bench.register()
        bench.engine.providerSwitched(.fcm, on: false, now: bench.now)
        _ = bench.take()
        let record = try #require(try answer(200, bench.invite(), bench).records.first)
        #expect(record.omission == .providerOff)
        #expect(record.app == "fcm")
    }

    @Test func `its provider is switched off while it is waited for`() throws {
        let bench = EngineBench()
        bench.register(expires: 60)
        _ = bench.pass(.seconds(100))
        let id = try #require(bench.invite().pushIDs.first)
        bench.engine.pushNoted(id, .finished(.accepted(nil)), now: bench.now)
        bench.engine.pushFinished(id, outcome: .accepted(nil), now: bench.now)
        bench.engine.providerSwitched(.fcm, on: false, now: bench.now)
        #expect(bench.take().records.map(\.end) == [.providerOff])
    }

    @Test func `it has just registered`() throws {
        let bench = EngineBench { $0.call.skipPushWithin = .seconds(10) }
        bench.register()
        let record = try #require(try answer(200, bench.invite(), bench).records.first)
        #expect(record.omission == .justRegistered)
    }

    @Test func `too many pushes for the phone`() throws {
        let bench = EngineBench { $0.call.pushesPerDevice = 1 }
        bench.register()
        bench.invite()
        #expect(bench.invite(callID: "call2", branch: "i2").pushIDs.isEmpty)
        let record = try #require(bench.pass(.seconds(31)).records.first)
        #expect(record.omission == .deviceLimit)
        #expect(record.end == .timeOver)
    }

    @Test func `too many calls at a time`() {
        let bench = EngineBench { $0.limits.calls = 0 }
        bench.register()
        let record = bench.invite().records.first
        #expect(record?.omission == .tooManyCalls)
        #expect(record?.endStatus == 503)
    }

    // MARK: Besides

    @Test func `a list of missed calls has a record`() throws {
        let bench = EngineBench()
        let id = try pushed(bench)
        bench.engine.pushFinished(id, outcome: .accepted(nil), now: bench.now)
        _ = bench.pass(.seconds(31))
        let list = try #require(bench.register(cseq: 2).pushIDs.first)
        bench.engine.pushNoted(list, .sent, now: bench.now)
        bench.engine.pushNoted(list, .finished(.accepted(nil)), now: bench.now)
        let record = try #require(bench.take().records.first)
        #expect(record.kind == .missedCalls)
        #expect(record.calls == 1)
        #expect(record.callID.isEmpty)
    }

    @Test func `what is under way is written when the daemon stops`() throws {
        let bench = EngineBench()
        _ = try pushed(bench)
        bench.engine.stopped(now: bench.now)
        #expect(bench.take().records.map(\.end) == [.stopped])
    }

    @Test func `nothing is kept when it is switched off`() throws {
        let bench = EngineBench { $0.timelineLimit = 0 }
        #expect(bench.invite(to: "nobody", branch: "i0").records.isEmpty)
        let id = try pushed(bench)
        bench.engine.pushFinished(id, outcome: .accepted(nil), now: bench.now)
        #expect(bench.pass(.seconds(31)).records.isEmpty)
        #expect(bench.engine.timeline.count == 0)
    }

    @Test(arguments: TimelineRecord.SignOfLife.allCases)
    func `a phone that is awake has not registered: what let the call out is told`(
        sign: TimelineRecord.SignOfLife
    ) throws {
        let bench = EngineBench()
        let id = try pushed(bench)
        bench.engine.pushFinished(id, outcome: .accepted(nil), now: bench.now)
        bench.take()
        _ = bench.pass(.milliseconds(500))
        var released: [ProxyAction] = []
        switch sign {
        case .keepAlive:
            bench.engine.flowAlive(EngineBench.udp(EngineBench.phone), now: bench.now)
            released = bench.take()
        case .request: released = bench.receive(bench.phoneText("OPTIONS", to: "sip:example.net"))
        case .response:
            released = bench.receive(
                SIPText.bytes([
                    "SIP/2.0 200 OK", "Via: SIP/2.0/UDP 10.0.0.1:5060;branch=z9hG4bKlate",
                    "From: <sip:x@example.net>;tag=o", "To: <sip:bob@example.net>;tag=p", "Call-ID: o",
                    "CSeq: 1 MESSAGE",
                ]))
        }
        // It registers all the same, and has the call.
        _ = bench.pass(.milliseconds(50))
        #expect(bench.register(cseq: 2).invites.isEmpty)
        let record = try #require(try answer(200, released, bench).records.first)
        #expect(record.sign == sign && record.steps.registered == nil && record.steps.invited == 580)
    }

    @Test func `a REGISTER that lets the call out is no sign of life`() throws {
        let bench = EngineBench()
        let id = try pushed(bench)
        bench.engine.pushFinished(id, outcome: .accepted(nil), now: bench.now)
        let released = bench.register(cseq: 2)
        let record = try #require(try answer(200, released, bench).records.first)
        #expect(record.sign == nil && record.steps.registered == 80)
    }
}

extension [ProxyAction] {
    /// The records of the timeline that are to be written.
    var records: [TimelineRecord] {
        flatMap { action -> [TimelineRecord] in
            guard case .trace(let changes) = action else { return [] }
            return changes.compactMap { if case .record(let record) = $0 { record } else { nil } }
        }
    }

    var invites: [SIPRequest] {
        compactMap { action in
            guard case .send(let bytes, _) = action,
                case .request(let request) = MessageReader().read(bytes.span, isStream: false),
                request.method == .invite
            else { return nil }
            return request
        }
    }
}
