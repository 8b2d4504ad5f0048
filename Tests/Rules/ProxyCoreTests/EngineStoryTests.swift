import Addressing
import Bytes
import ProxyCore
import ProxyPolicy
import PushDelivery
import SIPGrammar
import TestSupport
import Testing
import Timekeeping

@Suite("Register, sleep, push, hold, wake, deliver, missed calls")
struct EngineStoryTests {
    @Test func `the 200 to a REGISTER is sent after the commit`() {
        let bench = EngineBench()
        let first = bench.receive(bench.registerText())
        #expect(story(first) == ["commit"])
        let answer = bench.commitAll(in: first)
        #expect(story(answer) == ["200 register > phone"])
        #expect(answer.texts.first?.contains("\r\nDate: Mon, 21 Sep 2026 14:13:20 GMT\r\n") == true)
    }

    @Test func `a repeated INVITE gets its 100 again, and the contents of the copy do not count`() {
        let bench = EngineBench.registered()
        let trying = bench.invite().texts.first
        #expect(trying?.hasPrefix("SIP/2.0 100 ") == true)
        #expect(bench.invite().texts == [trying])
        let copy = bench.inviteText().replacing("<sip:103@", with: "<sip:104@")
        let stranger = Endpoint(IPAddress(v4: 0xc633_6401), 5060)
        let again = bench.receive(copy, from: stranger)
        #expect(again.texts == [trying] && story(again) == ["100 invite > pbx"])
    }

    @Test func `a failed commit is 503 and leaves nothing`() {
        let bench = EngineBench()
        let first = bench.receive(bench.registerText())
        let answer = bench.commitAll(in: first, succeeded: false)
        #expect(story(answer) == ["503 register > phone"])
        #expect(answer.texts.first?.contains("Retry-After:") == true)
        #expect(story(bench.invite()) == ["404 invite > pbx"])
    }

    @Test(arguments: [
        PhoneStory("a refresh that changes nothing needs no commit", .register(), .refresh()),
        PhoneStory("an INVITE gets 100 and a push, and waits", .register(), .wakingCall, .held(1)),
        PhoneStory(
            "another device's REGISTER does not release it", .register(), .wakingCall,
            .register(token: "tok2").without("invite")),
        PhoneStory(
            "480 at the deadline and not before", .register(), .wakingCall, .pass(29.95),
            .pass(0.1).including("480 invite > pbx")),
        PhoneStory(
            "480 when the INVITE expires and not before", .register(),
            .call(extra: ["Expires: 5"], "100 invite > pbx", "push invite tok1"), .pass(4.95),
            .pass(0.1).including("480 invite > pbx")),
        PhoneStory(
            "a CANCEL while held is 487, and the phone learns of the call when it returns, in one push", .register(),
            .wakingCall, .cancel("200 cancel > pbx", "487 invite > pbx"), .wakingCall, .pass(31).unseen,
            .refresh("push missed 103,103 tok1"),
            // The refreshing REGISTER causes no second list of missed calls, because the daemon is already sending a
            // list.
            .refresh()),
        PhoneStory(
            "a missed-calls push that failed is sent at the next return", .register(), .wakingCall, .pass(31).unseen,
            .refresh("push missed 103 tok1"), .push(.credentialsRefused("x")), .refresh("push missed 103 tok1"),
            .push(.accepted(nil)), .refresh()),
        PhoneStory(
            "a call that is still offered is not reported", .register(), .wakingCall,
            .refresh("invite > 0")),
        PhoneStory(
            "an answered call is not reported", .register(), .wakingCall, .refresh("invite > 0"),
            .answer(200, "200 invite > pbx"), .refresh()),
        PhoneStory(
            "a device that has just registered needs no push when the operator says so",
            where: { $0.call.skipPushWithin = .seconds(60) }, .register(), .plainCall, .pass(40).unseen,
            .refresh().unseen, .pass(59).unseen, .plainCall, .pass(1).unseen, .wakingCall),
    ])
    func `a call wakes a sleeping phone`(story: PhoneStory) { #expect(story.faults == []) }

    @Test func `REGISTERs of one user are served in their order`() {
        let bench = EngineBench()
        let first = bench.receive(bench.registerText())
        #expect(story(bench.receive(bench.registerText(cseq: 2))).isEmpty)
        #expect(story(bench.commitAll(in: first)) == ["200 register > phone", "200 register > phone"])
    }

    @Test func `the 200 to the REGISTER is sent before the INVITE, and the INVITE is sent once`() {
        let bench = EngineBench.registered()
        bench.invite()
        let elsewhere = Endpoint(IPAddress(v4: 0xcb00_7101), 1234)
        let out = bench.register(callID: "r2", from: elsewhere)
        #expect(story(out) == ["commit", "200 register > \(elsewhere)", "invite > \(elsewhere)"])
        #expect(story(bench.register(callID: "r2", cseq: 2, from: elsewhere)) == ["200 register > \(elsewhere)"])
    }

    @Test func `push parameters never leave the daemon`() {
        let bench = EngineBench.registered()
        bench.invite()
        let invite = bench.register(cseq: 2).texts.last ?? ""
        #expect(invite.hasPrefix("INVITE sip:bob@192.0.2.5:40000 SIP/2.0\r\n"))
        #expect(!invite.contains("pn-"))
    }

    @Test(arguments: [
        (CallerIDFormat.ecss10, "sip:103@example.net", "103"),
        (.uri, "sip:103@example.net", "sip:103@example.net"),
        (.user, "103", "103"),
    ])
    func `pushes name the caller in the form asked for`(format: CallerIDFormat, number: String, remote: String) throws {
        let bench = EngineBench.registered { $0.call.callerIDFormat = format }
        guard case .incomingCall(let call)? = bench.invite().pushes.last?.message else {
            Issue.record("no push")
            return
        }
        #expect(call.callerURI.string == number)
        _ = bench.pass(.seconds(31))
        #expect(story(bench.register(cseq: 2)).contains("push missed \(remote) tok1"))
    }

    @Test func `bindings that were only refreshed together with a changed contact are written late`() {
        let bench = EngineBench()
        let text = { (cseq: Int, second: String) in
            SIPText.register(
                user: "bob", from: EngineBench.phone, callID: "two", cseq: cseq, branch: "two\(cseq)",
                contact:
                    "<sip:bob@192.0.2.5;pn-provider=fcm;pn-prid=a>, <sip:bob@192.0.2.6;pn-provider=fcm;pn-prid=\(second)>"
            )
        }
        _ = bench.commitAll(in: bench.receive(text(1, "b")))
        let second = bench.receive(text(2, "c"))
        #expect(story(second) == ["commit"])
        _ = bench.commitAll(in: second)
        let late = bench.pass(.seconds(11)).compactMap { action -> Int? in
            guard case .refresh(let rows) = action else { return nil }
            return rows.count
        }
        #expect(late == [1])
    }

    @Test func `a dead token ends the call at once and the contact with it`() throws {
        let bench = EngineBench.registered()
        let push = try #require(bench.invite().pushIDs.first)
        bench.finish(push, .tokenDead(since: bench.now.date))
        #expect(story(bench.take()) == ["480 invite > pbx"])
        #expect(story(bench.invite(callID: "call2", branch: "i2")) == ["480 invite > pbx"])
    }

    @Test func `a token that registered after it was declared dead stays`() throws {
        let bench = EngineBench.registered()
        let push = try #require(bench.invite().pushIDs.first)
        let before = UnixTime(milliseconds: bench.now.date.milliseconds - 1)
        bench.finish(push, .tokenDead(since: before))
        #expect(story(bench.take()) == ["480 invite > pbx"])
        #expect(bench.invite(callID: "call2", branch: "i2").pushIDs.count == 1)
    }

    @Test func `a provider switched off makes fresh contacts ordinary and ends expired ones`() {
        let bench = EngineBench.registered()
        bench.register(
            user: "carol", token: "tok9", callID: "r9", from: Endpoint(IPAddress(v4: 0xc000_0209), 9), expires: 60)
        _ = bench.pass(.seconds(120))
        bench.engine.providerSwitched(.fcm, to: .off, now: bench.now)
        bench.take()
        #expect(story(bench.invite()) == ["100 invite > pbx", "invite > phone"])
        #expect(story(bench.invite(to: "carol", callID: "call2", branch: "i2")) == ["480 invite > pbx"])
    }

    @Test func `the same call by two ways reaches the device once`() {
        let bench = EngineBench.registered()
        bench.invite()
        #expect(story(bench.invite(branch: "other")) == ["482 invite > pbx"])
    }
}
