import Addressing
import Bytes
import ProxyCore
import PushDelivery
import SIPGrammar
import Testing
import TestSupport
import Timekeeping

/// What the app of bob's phone wants.
private func afterEnd(_ wish: AfterEnd) -> @Sendable (inout ProxySettings) -> Void {
    var push = PushSettings()
    push.fcm.enabled = true
    push.fcm.afterEnd = wish
    return { [push] in $0.pushApps = PushDirectory(push) }
}

extension PhoneStory.Step {
    /// A phone that was pushed for a call, and has not come.
    fileprivate static var wokenPhone: Self {
        Self("a phone is woken", []) { phone in
            _ = phone.register(at: 0)
            return phone.call() + phone.give(.accepted(nil))
        }.including("push invite tok1")
    }
}

@Suite("Phones that come when the call is over")
struct AfterEndTests {
    /// A phone that was pushed for a call.
    private func pushed(
        afterEnd: AfterEnd = .inviteCancel, _ change: (inout ProxySettings) -> Void = { _ in }
    ) -> EngineBench {
        let bench = EngineBench.registered {
            ProxyCoreTests.afterEnd(afterEnd)(&$0)
            change(&$0)
        }
        if let id = bench.invite().pushIDs.first {
            bench.note(id, .sent)
            bench.finish(id)
        }
        bench.take()
        return bench
    }

    private func answer(_ bench: EngineBench, _ status: Status, to invite: SIPRequest) -> [ProxyAction] {
        bench.receive(SIPText.response(status, to: invite, tag: "b", contact: "sip:bob@192.0.2.5:40000;x=y"))
    }

    @Test(arguments: [
        PhoneStory(
            "it gets the INVITE and its CANCEL with the Reason, and no list of what it knows",
            where: afterEnd(.inviteCancel), .wokenPhone,
            .cancel(reasons: ["SIP;cause=487;text=\"x\""], "200 cancel > pbx", "487 invite > pbx"), .pass(20).unseen,
            .refresh("invite > 0"), .lastInvite(of: "call1"), .answer(180, "cancel > 0"),
            .reasons("SIP;cause=487;text=\"x\""), .answer(487, "ack > 0"), .refresh()),
        PhoneStory(
            "it hears that somebody else answered", where: afterEnd(.inviteCancel), .wokenPhone,
            .cancel(reasons: ["Q.850;cause=26"], "200 cancel > pbx", "487 invite > pbx"), .refresh("invite > 0"),
            .answer(100, "cancel > 0"),
            .reasons("SIP;cause=200;text=\"Call completed elsewhere\"", "Q.850;cause=26")),
        PhoneStory(
            "a sign of life is a return as well", where: afterEnd(.inviteCancel), .wokenPhone, .pass(31).unseen,
            .keepAlive("invite > 0"), .keepAlive()),
        PhoneStory(
            "one that says nothing to it gets the list", where: afterEnd(.inviteCancel), .wokenPhone,
            .cancel().unseen, .refresh("invite > 0"), .pass(40).including("push missed 103 tok1")),
        PhoneStory(
            "after a minute it is too late", where: afterEnd(.inviteCancel), .wokenPhone, .cancel().unseen,
            .pass(61).unseen, .refresh("push missed 103 tok1")),
        PhoneStory(
            "so it is where the app wants nothing", where: afterEnd(.none), .wokenPhone, .cancel().unseen,
            .refresh("push missed 103 tok1")),
    ])
    func `what it is told`(story: PhoneStory) { #expect(story.faults == []) }

    @Test func `it hears that another phone of its user has taken the call`() throws {
        let bench = EngineBench.registered(afterEnd(.inviteCancel))
        let other = Endpoint(IPAddress(v4: 0xc000_0209), 40_009)
        bench.register(token: "tok9", callID: "r9", from: other)
        for id in bench.invite().pushIDs {
            bench.note(id, .sent)
            bench.finish(id)
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

    @Test func `one that answers by itself is hung up`() throws {
        let bench = pushed()
        bench.cancel()
        let invite = try #require(sentRequest(bench.register(cseq: 2)))
        let out = answer(bench, 200, to: invite)
        #expect(story(out) == ["ack > phone", "bye > phone"])
        let bye = try #require(sentRequest(out))
        #expect(bye.uri.text.string == "sip:bob@192.0.2.5:40000;x=y")
        #expect(bye.to.tag?.string == "b" && bye.from.tag == invite.from.tag && bye.cseq.number == 2)
        #expect(story(answer(bench, 200, to: bye)).isEmpty)
    }

    @Test func `an app that wishes it is pushed at once, and hears nothing when it comes`() throws {
        let bench = pushed(afterEnd: .push)
        let over = bench.cancel()
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
        #expect(awake.cancel().pushes.isEmpty)
    }

    @Test func `calls that are not over have the room first`() throws {
        let bench = pushed { $0.limits.heldBytes = 1_100 }
        bench.cancel()
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
        ("acrobits", "app", .ecss10, .push),
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
            prid: ByteString(String(repeating: "00ff", count: 16)))
        #expect(PushDirectory(push).afterEnd(of: token) == expected)
    }
}
