import Addressing
import Bytes
import ProxyCore
import PushDelivery
import SIPGrammar
import Testing
import TestSupport
import Timekeeping

@Suite("Register, sleep, push, hold, wake, deliver, missed calls")
struct EngineStoryTests {
    @Test func `200 to a REGISTER follows the commit`() {
        let bench = EngineBench()
        let first = bench.receive(bench.registerText())
        #expect(story(first) == ["commit"])
        let answer = bench.commitAll(in: first)
        #expect(story(answer) == ["200 register > phone"])
        #expect(answer.texts.first?.contains("\r\nDate: Mon, 21 Sep 2026 14:13:20 GMT\r\n") == true)
    }

    @Test func `a failed commit is 503 and leaves nothing behind`() {
        let bench = EngineBench()
        let first = bench.receive(bench.registerText())
        let answer = bench.commitAll(in: first, succeeded: false)
        #expect(story(answer) == ["503 register > phone"])
        #expect(answer.texts.first?.contains("Retry-After:") == true)
        #expect(story(bench.invite()) == ["404 invite > pbx"])
    }

    @Test func `a refresh that changes nothing needs no commit`() {
        let bench = EngineBench()
        bench.register()
        #expect(story(bench.receive(bench.registerText(cseq: 2))) == ["200 register > phone"])
    }

    @Test func `REGISTERs of one user are served in their order`() {
        let bench = EngineBench()
        let first = bench.receive(bench.registerText())
        #expect(story(bench.receive(bench.registerText(cseq: 2))).isEmpty)
        #expect(story(bench.commitAll(in: first)) == ["200 register > phone", "200 register > phone"])
    }

    @Test func `an INVITE gets 100 and a push, and waits`() {
        let bench = EngineBench()
        bench.register()
        #expect(story(bench.invite()) == ["100 invite > pbx", "push invite tok1"])
        #expect(bench.engine.heldCalls.count == 1)
    }

    @Test func `the REGISTER gets its 200 first, then the INVITE on the new flow, once`() {
        let bench = EngineBench()
        bench.register()
        bench.invite()
        let elsewhere = Endpoint(IPAddress(v4: 0xcb00_7101), 1234)
        let out = bench.register(callID: "r2", from: elsewhere)
        #expect(
            story(out)
                == ["commit", "200 register > \(elsewhere)", "drop push", "INVITE > \(elsewhere)"].map(lowerMethod))
        #expect(story(bench.register(callID: "r2", cseq: 2, from: elsewhere)) == ["200 register > \(elsewhere)"])
    }

    @Test func `push parameters stay here`() {
        let bench = EngineBench()
        bench.register()
        bench.invite()
        let invite = bench.register(cseq: 2).texts.last ?? ""
        #expect(invite.hasPrefix("INVITE sip:bob@192.0.2.5:40000 SIP/2.0\r\n"))
        #expect(!invite.contains("pn-"))
    }

    @Test func `another device's REGISTER does not release`() {
        let bench = EngineBench()
        bench.register()
        bench.invite()
        #expect(!story(bench.register(token: "tok2", callID: "r9")).contains { $0.hasPrefix("invite") })
    }

    @Test(arguments: [(nil, 30), ("Expires: 5", 5)])
    func `480 at the deadline and not before`(expires: String?, seconds: Int64) {
        let bench = EngineBench()
        bench.register()
        bench.invite(extra: expires.map { [$0] } ?? [])
        #expect(story(bench.pass(.seconds(seconds) - .milliseconds(50))).isEmpty)
        #expect(story(bench.pass(.milliseconds(100))).contains("480 invite > pbx"))
    }

    @Test func `a CANCEL while held is 487, and the phone learns of the call when it returns, in one push`() throws {
        let bench = EngineBench()
        bench.register()
        bench.invite()
        let cancel = try #require(cancelText(bench.inviteText()))
        #expect(
            story(bench.receive(cancel, from: EngineBench.pbx)) == [
                "200 cancel > pbx", "drop push", "487 invite > pbx",
            ])
        bench.invite(callID: "call2", branch: "i2")
        _ = bench.pass(.seconds(31))
        #expect(story(bench.register(cseq: 2)) == ["200 register > phone", "push missed 103,103 tok1"])
        // The list is on its way: it is not sent again.
        #expect(story(bench.register(cseq: 3)) == ["200 register > phone"])
    }

    @Test func `a missed-calls push that failed is sent at the next return`() throws {
        let bench = EngineBench()
        bench.register()
        bench.invite()
        _ = bench.pass(.seconds(31))
        let push = try #require(bench.register(cseq: 2).pushIDs.first)
        bench.engine.pushFinished(push, outcome: .credentialsRefused("x"), now: bench.now)
        let again = try #require(bench.register(cseq: 3).pushIDs.first)
        bench.engine.pushFinished(again, outcome: .accepted(nil), now: bench.now)
        #expect(bench.register(cseq: 4).pushIDs.isEmpty)
    }

    @Test func `a call that is still offered is not reported`() {
        let bench = EngineBench()
        bench.register()
        bench.invite()
        #expect(!story(bench.register(cseq: 2)).contains { $0.hasPrefix("push missed") })
    }

    @Test func `an answered call is not reported`() throws {
        let bench = EngineBench()
        bench.register()
        bench.invite()
        let invite = try #require(sentRequest(bench.register(cseq: 2)))
        let answer = SIPText.response(200, to: invite, tag: "b", contact: "sip:bob@10.1.1.1")
        #expect(story(bench.receive(answer)) == ["200 invite > pbx"])
        #expect(bench.register(cseq: 3).pushIDs.isEmpty)
    }

    @Test func `a device that has just registered needs no push when the operator says so`() {
        let bench = EngineBench { $0.call.skipPushWithin = .seconds(60) }
        bench.register()
        #expect(story(bench.invite()) == ["100 invite > pbx", "invite > phone"])
        _ = bench.pass(.seconds(40))
        bench.register(cseq: 2)
        _ = bench.pass(.seconds(59))
        #expect(story(bench.invite(callID: "call2", branch: "i2")) == ["100 invite > pbx", "invite > phone"])
        _ = bench.pass(.seconds(1))
        #expect(story(bench.invite(callID: "call3", branch: "i3")) == ["100 invite > pbx", "push invite tok1"])
    }

    @Test(arguments: [
        (CallerIDFormat.ecss10, "sip:103@example.net", "103"),
        (.uri, "sip:103@example.net", "sip:103@example.net"),
        (.user, "103", "103"),
    ])
    func `pushes name the caller in the form asked for`(format: CallerIDFormat, number: String, remote: String) throws {
        let bench = EngineBench { $0.call.callerIDFormat = format }
        bench.register()
        guard case .push(let request) = bench.invite().last, case .incomingCall(let call) = request.message else {
            Issue.record("no push")
            return
        }
        #expect(call.callerURI.string == number)
        _ = bench.pass(.seconds(31))
        #expect(story(bench.register(cseq: 2)).contains("push missed \(remote) tok1"))
    }

    @Test func `what was merely refreshed beside a changed contact is written late`() {
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
        let bench = EngineBench()
        bench.register()
        let push = try #require(bench.invite().pushIDs.first)
        bench.engine.pushFinished(push, outcome: .tokenDead(since: bench.now.date), now: bench.now)
        #expect(story(bench.take()) == ["480 invite > pbx"])
        #expect(story(bench.invite(callID: "call2", branch: "i2")) == ["480 invite > pbx"])
    }

    @Test func `a token that registered after it was declared dead stays`() throws {
        let bench = EngineBench()
        bench.register()
        let push = try #require(bench.invite().pushIDs.first)
        let before = UnixTime(milliseconds: bench.now.date.milliseconds - 1)
        bench.engine.pushFinished(push, outcome: .tokenDead(since: before), now: bench.now)
        #expect(story(bench.take()) == ["480 invite > pbx"])
        #expect(bench.invite(callID: "call2", branch: "i2").pushIDs.count == 1)
    }

    @Test func `a provider switched off makes fresh contacts ordinary and ends expired ones`() {
        let bench = EngineBench()
        bench.register()
        bench.register(
            user: "carol", token: "tok9", callID: "r9", from: Endpoint(IPAddress(v4: 0xc000_0209), 9), expires: 60)
        _ = bench.pass(.seconds(120))
        bench.engine.providerSwitched(.fcm, on: false, now: bench.now)
        bench.take()
        #expect(story(bench.invite()) == ["100 invite > pbx", "invite > phone"])
        #expect(story(bench.invite(to: "carol", callID: "call2", branch: "i2")) == ["480 invite > pbx"])
    }

    @Test func `the same call by two ways reaches the device once`() {
        let bench = EngineBench()
        bench.register()
        bench.invite()
        #expect(story(bench.invite(branch: "other")) == ["482 invite > pbx"])
    }

    // MARK: Helpers

    private func lowerMethod(_ line: String) -> String { line.replacing("INVITE", with: "invite") }

    private func cancelText(_ invite: [UInt8]) -> [UInt8]? {
        readRequest(invite).map { SIPText.hopRequest("CANCEL", for: $0) }
    }
}
