import Addressing
import Bytes
import ProxyCore
import ProxyPolicy
import PushDelivery
import PushPlanning
import Registration
import SIPGrammar
import TestSupport
import Testing
import Timekeeping

extension PhoneStory.Step {
    /// A call that makes the daemon send a push to the phone. The simulated push provider accepts the push after 80 ms.
    fileprivate static var pushedCall: Self {
        Self("a pushed call", []) { phone in
            _ = phone.register(at: 0)
            return phone.call() + phone.provider(.accepted(nil))
        }.including("push invite tok1")
    }
}

@Suite("Calls in the timeline")
struct TimelineStoryTests {
    /// Makes a call to bob, and lets bob's phone get a push for it. The answer of the provider arrives after 80 ms.
    private func pushed(
        _ bench: EngineBench, callID: String = "call1", outcome: PushOutcome? = .accepted(nil)
    ) throws -> PushID {
        bench.register()
        let id = try #require(bench.invite(callID: callID).pushIDs.first)
        _ = bench.pass(.milliseconds(80))
        if let outcome { bench.finish(id, outcome) }
        bench.take()
        return id
    }

    /// Lets the phone answer the last INVITE among the actions.
    private func answer(_ status: Status, _ actions: [ProxyAction], _ bench: EngineBench) throws -> [ProxyAction] {
        let request = try #require(actions.invites.last)
        return bench.receive(SIPText.response(status, to: request, tag: "p", contact: "sip:bob@192.0.2.5"))
    }

    @Test func `woken, called, answered`() throws {
        let bench = EngineBench()
        _ = try pushed(bench)
        let code = try #require(bench.engine.timeline.underWay { _ in true }.first?.code)
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

    @Test func `the REGISTER is recorded when it arrives, the INVITE when it is sent`() throws {
        let bench = EngineBench()
        _ = try pushed(bench)
        // The store must write a REGISTER from another address before the REGISTER has an effect.
        let elsewhere = Endpoint(IPAddress(v4: 0xcb00_7101), 1234)
        let register = bench.receive(bench.registerText(callID: "r2", from: elsewhere), from: elsewhere)
        _ = bench.pass(.milliseconds(6))
        _ = bench.commitAll(in: register)
        let record = try #require(bench.engine.timeline.underWay { _ in true }.first)
        #expect(record.steps.registered == 80)
        #expect(record.steps.invited == 86)
    }

    @Test(arguments: [
        PhoneStory(
            "a phone that comes before the provider's answer", .register(), .wakingCall, .slowProvider,
            .refresh("invite > 0"), .lateProvider(.accepted(nil)),
            .answer(486, "ack > 0", "486 invite > pbx"),
            .records(
                "fcm, provider accepted, end refused, with 486, sent 0, answered 160, registered 80, invited 80, ended 160"
            )
        ),
        PhoneStory(
            "a phone that comes before its push has left", where: EngineBench.wantsCredential, .register(),
            .call("100 invite > pbx"), .refresh("invite > 0"), .answer(486, "ack > 0", "486 invite > pbx"),
            .records("fcm, withdrawn, end refused, with 486, registered 0, invited 0, ended 0")),
        PhoneStory(
            "nobody comes", .pushedCall, .pass(30).unseen,
            .records("fcm, provider accepted, end time-over, sent 0, answered 80, ended 30000")),
        PhoneStory(
            "the caller gives up", .register(), .wakingCall, .slowProvider,
            .cancel("200 cancel > pbx", "487 invite > pbx"), .records(), .lateProvider(.accepted(nil)),
            .records("fcm, provider accepted, end caller-gave-up, sent 0, answered 160, ended 80")),
        PhoneStory(
            "the token is dead", .register(), .wakingCall, .provider(.tokenDead(since: nil), "480 invite > pbx"),
            .records("fcm, provider token-dead, end token-dead, sent 0, answered 80, ended 80")),
        PhoneStory(
            "the token was dead before the REGISTER: the contact stays", .register(), .wakingCall,
            .provider(.tokenDead(since: UnixTime(seconds: 1)), "480 invite > pbx"),
            .records("fcm, provider token-dead, end push-failed, sent 0, answered 80, ended 80")),
        PhoneStory(
            "the provider refuses us", .register(), .wakingCall,
            .provider(.credentialsRefused("no"), "480 invite > pbx"),
            .records("fcm, provider credentials-refused, end push-failed, sent 0, answered 80, ended 80")),
        PhoneStory(
            "the phone signs out while it is waited for", .pushedCall, .refresh(expires: 0, commits: true).unseen,
            .records("fcm, provider accepted, end signed-out, sent 0, answered 80, ended 80")),
        PhoneStory(
            "the phone gives no answer to the INVITE", .pushedCall, .refresh("invite > 0"), .pass(40).unseen,
            .records(
                "fcm, provider accepted, end no-answer, sent 0, answered 80, registered 80, invited 80, ended 32080")),
        PhoneStory(
            "a REGISTER that lets the call out is no sign of life", .pushedCall, .refresh("invite > 0"),
            .answer(200, "200 invite > pbx"),
            .records("fcm, provider accepted, end answered, sent 0, answered 80, registered 80, invited 80, ended 80")),
        PhoneStory(
            "a phone that is pushed after it rang: it rings anew when it says so, not when another does", over: .tcp,
            where: { $0.call.skipPushWithin = .seconds(60) }, .register(at: 2, token: "tok2"), .register(),
            .call("100 invite > pbx", "invite > 2", "invite > 0"), .answer(180, "180 invite > pbx"),
            .closed("push invite tok1"),
            .records("fcm, just-registered, end unreachable, invited 0, rang 0, ended 0"), .provider(.accepted(nil)),
            .answer(180, to: .first, at: 2, "180 invite > pbx"), .pass(0.1),
            .register(at: 1, "cancel > 1", "invite > 1"), .pass(0.1),
            .answer(180, to: .first, at: 2, "180 invite > pbx"), .pass(0.1), .answer(180, "180 invite > pbx"),
            .answer(200, "200 invite > pbx", "cancel > 2"),
            .records(
                "fcm, provider accepted, end answered, sent 0, answered 80, registered 180, invited 180, rang 380, ended 380"
            )),
    ])
    func `a call that is pushed for`(story: PhoneStory) { #expect(story.faults == []) }

    @Test(arguments: [
        PhoneStory(
            "an ordinary contact", .register(token: nil), .plainCall, .answer(200, "200 invite > pbx"),
            .records("ordinary-contact, end answered, invited 0, ended 0")),
        PhoneStory(
            "its provider is switched off", .register(),
            PhoneStory.Step("fcm is switched off", []) { phone in
                phone.bench.engine.providerSwitched(.fcm, to: .off, now: phone.bench.now)
                return phone.said(phone.bench.take())
            }, .plainCall, .answer(200, "200 invite > pbx"),
            .records("fcm, provider-off, end answered, invited 0, ended 0")),
        PhoneStory(
            "it has just registered", where: { $0.call.skipPushWithin = .seconds(10) }, .register(), .plainCall,
            .answer(200, "200 invite > pbx"),
            .records("fcm, just-registered, end answered, invited 0, ended 0")),
        PhoneStory(
            "too many pushes for the phone", where: { $0.call.pushesPerDevice = 1 }, .register(), .wakingCall,
            .call("100 invite > pbx"), .pass(31).unseen,
            .records("fcm, device-limit, end time-over, ended 30000")),
        PhoneStory(
            "too many calls at a time", where: { $0.limits.calls = 0 }, .register(), .call("503 invite > pbx"),
            .records("too-many-calls, end not-offered, with 503, ended 0")),
    ])
    func `a call without a push`(story: PhoneStory) { #expect(story.faults == []) }

    @Test func `the other phone answers`() throws {
        let bench = EngineBench()
        _ = bench.register(token: "tok2", callID: "r9")
        _ = bench.pass(.seconds(1))
        let phone = try pushed(bench)
        let tablet = PushID(rawValue: phone.rawValue + 1)
        let released = bench.register(cseq: 2)
        let records = try answer(200, released, bench).records
        // The tablet has no timeline record yet, because the tablet's push provider has not answered.
        #expect(records.map(\.end) == [.answered])
        #expect(bench.engine.timeline.count == 1)
        bench.finish(tablet)
        #expect(bench.take().records.map(\.end) == [.answeredElsewhere])
    }

    // MARK: Without a push

    @Test func `a user with that name does not exist`() {
        let record = EngineBench().invite().records.first
        #expect(record?.refusal == .unknownUser)
        #expect(record?.endStatus == 404)
        #expect(record?.callID == ByteString("call1"))
        #expect(record?.isComplete == true)
    }

    @Test func `the phone has signed out`() {
        let bench = EngineBench { $0.authenticates = false }
        bench.engine.userAdded(
            DigestUser(name: ByteString("bob"), realm: ByteString("example.net"), ha1: [:]), now: bench.now)
        #expect(bench.invite().records.map(\.refusal) == [.noContact])
    }

    @Test func `calls to unknown users do not fill the table`() {
        let bench = EngineBench()
        let count = (0..<1000).reduce(0) { count, number in
            count + bench.invite(callID: "c\(number)", branch: "b\(number)").records.count
        }
        #expect(count == 600)
    }

    @Test func `its provider is switched off while it is waited for`() throws {
        let bench = EngineBench()
        bench.register(expires: 60)
        _ = bench.pass(.seconds(100))
        bench.finish(try #require(bench.invite().pushIDs.first))
        bench.engine.providerSwitched(.fcm, to: .off, now: bench.now)
        // Switching the provider off leaves two timeline records, one of the call and one of the contact.
        let records = bench.take().records
        #expect(records.map(\.end) == [.providerOff, .providerOff])
        #expect(Set(records.map(\.kind)) == [.call, .contact])
    }

    // MARK: Other records

    @Test func `a list of missed calls has a record`() throws {
        let bench = EngineBench()
        _ = try pushed(bench)
        _ = bench.pass(.seconds(31))
        let list = try #require(bench.register(cseq: 2).pushIDs.first)
        bench.finish(list)
        let record = try #require(bench.take().records.first)
        #expect(record.kind == .missedCalls)
        #expect(record.calls == 1)
        #expect(record.callID.isEmpty)
    }

    @Test func `open records are written when the daemon stops, except for calls, which continue`() throws {
        let bench = EngineBench()
        bench.finish(try pushed(bench))
        _ = bench.pass(.seconds(31))
        #expect(!bench.register(cseq: 2).pushIDs.isEmpty)
        bench.invite(callID: "call2", branch: "i2")
        bench.engine.stopped(now: bench.now)
        let records = bench.take().records
        #expect(records.map(\.kind) == [.missedCalls] && records.map(\.end) == [.stopped])
    }

    @Test func `nothing is kept when it is switched off`() throws {
        let bench = EngineBench { $0.timelineLimit = 0 }
        #expect(bench.invite(to: "nobody", branch: "i0").records.isEmpty)
        _ = try pushed(bench)
        #expect(bench.pass(.seconds(31)).records.isEmpty)
        #expect(bench.engine.timeline.count == 0)
    }

    @Test(arguments: TimelineRecord.SignOfLife.allCases)
    func `the record of a phone that is awake names the sign that released the call`(
        sign: TimelineRecord.SignOfLife
    ) throws {
        let bench = EngineBench()
        _ = try pushed(bench)
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
        // The phone also registers, but gets no second INVITE, because the daemon sent the held INVITE after the sign
        // of life.
        _ = bench.pass(.milliseconds(50))
        #expect(bench.register(cseq: 2).invites.isEmpty)
        let record = try #require(try answer(200, released, bench).records.first)
        #expect(record.sign == sign && record.steps.registered == nil && record.steps.invited == 580)
    }

}

extension [ProxyAction] {
    /// The timeline records that the actions write.
    var records: [TimelineRecord] {
        flatMap { action -> [TimelineRecord] in
            guard case .trace(let changes) = action else { return [] }
            return changes.compactMap { if case .record(let record) = $0 { record } else { nil } }
        }
    }

    var invites: [SIPRequest] { bytes.compactMap(SIPText.readRequest).filter { $0.method == .invite } }
}
