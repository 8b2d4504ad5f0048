import Addressing
import Bytes
import ProxyCore
import PushDelivery
import SIPGrammar
import Testing
import TestSupport
import Timekeeping

@Suite("Phones that come when the call is over")
struct AfterEndTests {
    /// A phone that was pushed for a call.
    private func pushed(
        afterEnd: AfterEnd? = .inviteCancel, _ change: (inout ProxySettings) -> Void = { _ in }
    ) -> EngineBench {
        var push = PushSettings()
        push.fcm.enabled = true
        push.fcm.afterEnd = afterEnd
        let bench = EngineBench {
            $0.pushApps = PushDirectory(push)
            change(&$0)
        }
        bench.register()
        if let id = bench.invite().pushIDs.first {
            bench.engine.pushNoted(id, .sent, now: bench.now)
            bench.engine.pushFinished(id, outcome: .accepted(nil), now: bench.now)
        }
        bench.take()
        return bench
    }

    private func cancel(_ bench: EngineBench, _ extra: [String] = []) throws {
        let invite = try #require(readRequest(bench.inviteText()))
        bench.receive(SIPText.hopRequest("CANCEL", for: invite, extra: extra), from: EngineBench.pbx)
    }

    private func answer(_ bench: EngineBench, _ status: Status, to invite: SIPRequest) -> [ProxyAction] {
        bench.receive(SIPText.response(status, to: invite, tag: "b", contact: "sip:bob@192.0.2.5:40000;x=y"))
    }

    @Test func `it gets the INVITE and its CANCEL with the Reason, and no list of what it knows`() throws {
        let bench = pushed()
        try cancel(bench, ["Reason: SIP;cause=487;text=\"x\""])
        _ = bench.pass(.seconds(20))
        let out = bench.register(cseq: 2)
        #expect(story(out) == ["200 register > phone", "invite > phone"])
        let invite = try #require(sentRequest(out))
        #expect(invite.callID.string == "call1")
        let told = answer(bench, 180, to: invite)
        #expect(story(told) == ["cancel > phone"])
        #expect(sentRequest(told)?.frame.values(of: .reason).map(\.string) == ["SIP;cause=487;text=\"x\""])
        #expect(story(answer(bench, 487, to: invite)) == ["ack > phone"])
        #expect(story(bench.register(cseq: 3)) == ["200 register > phone"])
    }

    @Test func `it hears that somebody else answered`() throws {
        let bench = pushed()
        try cancel(bench, ["Reason: Q.850;cause=26"])
        let invite = try #require(sentRequest(bench.register(cseq: 2)))
        let told = answer(bench, 100, to: invite)
        #expect(
            sentRequest(told)?.frame.values(of: .reason).first?.string
                == "SIP;cause=200;text=\"Call completed elsewhere\"")
    }

    @Test func `it hears that another phone of its user has taken the call`() throws {
        var push = PushSettings()
        push.fcm.enabled = true
        push.fcm.afterEnd = .inviteCancel
        let bench = EngineBench { $0.pushApps = PushDirectory(push) }
        let other = Endpoint(IPAddress(v4: 0xc000_0209), 40_009)
        bench.register()
        bench.register(token: "tok9", callID: "r9", from: other)
        for id in bench.invite().pushIDs {
            bench.engine.pushNoted(id, .sent, now: bench.now)
            bench.engine.pushFinished(id, outcome: .accepted(nil), now: bench.now)
        }
        let taken = try #require(sentRequest(bench.register(token: "tok9", callID: "r9", cseq: 2, from: other)))
        let answer = SIPText.response(200, to: taken, tag: "o", contact: "sip:bob@192.0.2.9")
        #expect(story(bench.receive(answer, from: other)) == ["200 invite > pbx"])
        let invite = try #require(sentRequest(bench.register(cseq: 2)))
        let told = self.answer(bench, 180, to: invite)
        #expect(story(told) == ["cancel > phone"])
        #expect(
            sentRequest(told)?.frame.firstValue(of: .reason)?.string
                == "SIP;cause=200;text=\"Call completed elsewhere\"")
        #expect(story(self.answer(bench, 487, to: invite)) == ["ack > phone"])
    }

    @Test func `a sign of life is a return as well`() throws {
        let bench = pushed()
        _ = bench.pass(.seconds(31))
        bench.engine.flowAlive(EngineBench.udp(EngineBench.phone), now: bench.now)
        #expect(story(bench.take()) == ["invite > phone"])
        bench.engine.flowAlive(EngineBench.udp(EngineBench.phone), now: bench.now)
        #expect(bench.take().isEmpty)
    }

    @Test func `one that says nothing to it gets the list`() throws {
        let bench = pushed()
        try cancel(bench)
        #expect(story(bench.register(cseq: 2)) == ["200 register > phone", "invite > phone"])
        #expect(story(bench.pass(.seconds(40))).contains("push missed 103 tok1"))
    }

    @Test func `one that answers by itself is hung up`() throws {
        let bench = pushed()
        try cancel(bench)
        let invite = try #require(sentRequest(bench.register(cseq: 2)))
        let out = answer(bench, 200, to: invite)
        #expect(story(out) == ["ack > phone", "bye > phone"])
        let bye = try #require(sentRequest(out))
        #expect(bye.uri.text.string == "sip:bob@192.0.2.5:40000;x=y")
        #expect(bye.to.tag?.string == "b" && bye.from.tag == invite.from.tag && bye.cseq.number == 2)
        #expect(story(answer(bench, 200, to: bye)).isEmpty)
    }

    @Test func `after a minute it is too late, and so it is where the app wants nothing`() throws {
        let late = pushed()
        try cancel(late)
        _ = late.pass(.seconds(61))
        #expect(story(late.register(cseq: 2)) == ["200 register > phone", "push missed 103 tok1"])
        let none = pushed(afterEnd: AfterEnd.none)
        try cancel(none)
        #expect(story(none.register(cseq: 2)) == ["200 register > phone", "push missed 103 tok1"])
    }

    @Test func `an app that wishes it is pushed at once, and hears nothing when it comes`() throws {
        let bench = pushed(afterEnd: .push)
        let invite = try #require(readRequest(bench.inviteText()))
        let over = bench.receive(SIPText.hopRequest("CANCEL", for: invite), from: EngineBench.pbx)
        let push = try #require(over.pushes.first)
        guard case .notification(let notification) = push.message else {
            Issue.record("no word of the end")
            return
        }
        #expect(push.token.prid.string == "tok1" && notification.isSilent && !notification.isInBadge)
        #expect(notification.endedCall?.outcome == .missed)
        #expect(notification.endedCall?.call.callID.string == "call1")
        #expect(notification.endedCall?.call.callerURI.string == "sip:103@example.net")
        #expect(story(bench.register(cseq: 2)) == ["200 register > phone", "push missed 103 tok1"])
        // A phone that has come gets a CANCEL instead.
        let awake = pushed(afterEnd: .push)
        awake.register(cseq: 2)
        #expect(awake.receive(SIPText.hopRequest("CANCEL", for: invite), from: EngineBench.pbx).pushes.isEmpty)
    }

    @Test func `calls that are not over have the room first`() throws {
        let bench = pushed { $0.limits.heldBytes = 1_100 }
        try cancel(bench)
        bench.register(user: "carol", token: "tok9", callID: "r9", from: Endpoint(IPAddress(v4: 0xc000_0209), 9))
        #expect(
            story(
                bench.invite(
                    to: "carol", callID: "call2", branch: "i2", extra: ["X: \(String(repeating: "x", count: 600))"])
            ).first == "100 invite > pbx")
        #expect(story(bench.register(cseq: 2)) == ["200 register > phone", "push missed 103 tok1"])
    }

    @Test(arguments: [
        ("apns", "TEAM.com.example.phone.voip", PayloadProfile.ecss10, AfterEnd.inviteCancel),
        ("apns", "TEAM.com.example.phone.remote", .ecss10, .none),
        ("apns", "TEAM.com.example.phone.remote", .linphone, .inviteCancel),
        ("fcm", "p", .ecss10, .none), ("fcm", "p", .tenDarts, .none), ("fcm", "p", .linphone, .inviteCancel),
        ("acrobits", "", .ecss10, .push),
    ])
    func `what apps get that say nothing of it`(
        provider: String, param: String, payload: PayloadProfile, expected: AfterEnd
    ) throws {
        var push = PushSettings()
        push.apns.enabled = true
        push.apns.payload = payload
        push.fcm.enabled = true
        push.fcm.payload = payload
        push.acrobits.enabled = true
        let token = PushToken(
            provider: try #require(PushProvider(rawValue: provider)), param: ByteString(param),
            prid: ByteString("00ff"))
        #expect(PushDirectory(push).afterEnd(of: token) == expected)
    }
}
