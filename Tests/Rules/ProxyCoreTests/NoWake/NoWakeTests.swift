import Addressing
import Bytes
import Calling
import ProxyCore
import ProxyPolicy
import PushDelivery
import PushPlanning
import Registration
import SIPGrammar
import Telemetry
import TestSupport
import Testing
import Timekeeping

/// A bench on which bob's phone is asleep. The PBX makes the calls, and is at the same time the upstream.
private final class NoWakeBench {
    let line: CallLineBench
    var bench: EngineBench { line.bench }

    init(
        _ action: NoWakeSettings.Action, upstream: String? = "sip:10.0.0.2:5060",
        _ change: (inout ProxySettings) -> Void = { _ in }
    ) {
        line = CallLineBench {
            $0.upstream = upstream.flatMap { NextHop($0) }
            $0.call.noWake.action = action
            $0.call.noWake.target = NoWakeTarget("sip:vm-{{user}}@pbx.example.net")
            $0.call.asksConnections = false
            change(&$0)
        }
        bench.register()
    }

    @discardableResult
    func call(_ extra: [String] = [], callID: String = "call1") -> [ProxyAction] {
        let sent = bench.invite(callID: callID, branch: "i\(callID)", extra: extra)
        for id in sent.pushIDs { bench.finish(id) }
        return sent + bench.take()
    }

    /// Finds the forwarded INVITE among the actions.
    func forward(_ actions: [ProxyAction]) -> SIPRequest? {
        actions.bytes.compactMap(SIPText.readRequest).last { $0.method == .invite }
    }

    func respond(_ status: Status, to request: SIPRequest?) -> [String] {
        guard let request else { return ["no INVITE"] }
        return story(
            bench.receive(
                SIPText.response(status, to: request, tag: "vm", contact: "sip:vm@10.0.0.2"), from: EngineBench.pbx))
    }
}

@Suite("Calls for which nobody wakes")
struct NoWakeTests {
    // MARK: Another final response

    @Test func `the caller gets the status of the settings, when the time is over or the push has failed`() {
        let late = NoWakeBench(.answer) { $0.call.noWake.status = 603 }
        late.call()
        #expect(story(late.bench.pass(.seconds(31))).first == "603 invite > pbx")
        let failed = NoWakeBench(.answer) { $0.call.noWake.status = 603 }
        let id = failed.bench.invite().pushIDs.first
        if let id { failed.bench.finish(id, .retry(after: nil)) }
        #expect(story(failed.bench.take()) == ["603 invite > pbx"])
        #expect(failed.bench.engine.buckets.entries(of: EngineBench.bob).map(\.isOver) == [true])
    }

    @Test func `what a phone says, an operator orders, or an unknown user gets, stays as it is`() throws {
        let bench = NoWakeBench(.answer) { $0.call.noWake.status = 603 }
        bench.call()
        let invite = try #require(sentRequest(bench.bench.register(cseq: 2)))
        let busy = bench.bench.receive(SIPText.response(486, to: invite, tag: "p"))
        #expect(story(busy).contains("486 invite > pbx"))
        bench.call(callID: "call2")
        let call = try #require(bench.bench.engine.heldCalls.first)
        _ = bench.bench.engine.callEndedByOperator(call.id, with: 480, now: bench.bench.now)
        #expect(story(bench.bench.take()) == ["480 invite > pbx"])
        #expect(story(bench.bench.invite(to: "nobody", callID: "c3", branch: "i3")) == ["404 invite > pbx"])
    }

    // MARK: A redirect

    @Test func `a trusted caller is redirected to the URI of the settings`() throws {
        let bench = NoWakeBench(.redirect)
        bench.call()
        let answer = try #require(sentResponse(bench.bench.pass(.milliseconds(30_100))))
        #expect(answer.status == 302)
        #expect(answer.frame.values(of: .contact).map(\.string) == ["<sip:vm-bob@pbx.example.net>"])
        #expect(bench.line.takeEnds() == ["notice ended HANX 302"])
    }

    @Test func `a phone is never redirected, since it would show its password there`() {
        let bench = NoWakeBench(.redirect, upstream: nil)
        let caller = Endpoint(IPAddress(v4: 0xcb00_7107), 5070)
        let invite = SIPText.invite(to: "bob", from: "103", at: caller, callID: "p", branch: "p")
        #expect(story(bench.bench.receive(invite, from: caller)).first == "100 invite > 203.0.113.7:5070")
        let told = bench.bench.pass(.seconds(31))
        #expect(story(told).first == "480 invite > 203.0.113.7:5070")
        #expect(told.texts.allSatisfy { !$0.contains("vm-bob") })
    }

    // MARK: A forward

    @Test func `the INVITE goes to the upstream as it came, with who has sent it on`() throws {
        let bench = NoWakeBench(.forward)
        bench.call()
        let sent = bench.bench.pass(.milliseconds(30_100))
        #expect(story(sent) == ["invite > pbx"])
        let forward = try #require(bench.forward(sent))
        #expect(forward.uri.text == ByteString("sip:vm-bob@pbx.example.net"))
        #expect(forward.maxForwards == 69 && forward.callID == ByteString("call1"))
        #expect(forward.frame.values(of: .route).isEmpty)
        #expect(
            forward.frame.values(of: .diversion).map(\.string)
                == ["<sip:bob@example.net>;reason=unavailable;counter=1"])
        #expect(forward.frame.values(of: .recordRoute).count == 1)
        // The push token is in none of the messages that the daemon sends.
        #expect(sent.texts.allSatisfy { !$0.contains("tok1") })
        #expect(bench.bench.engine.heldCalls.first?.waiting.count == 1)
        #expect(bench.respond(180, to: forward) == ["180 invite > pbx"])
        #expect(bench.bench.engine.heldCalls.first?.waiting.isEmpty == true)
        #expect(bench.respond(200, to: forward) == ["200 invite > pbx"])
        #expect(bench.line.takeEnds() == ["notice ended HANF 200"])
        #expect(bench.bench.engine.figures[.callForwarded] == 1)
        // The forwarded call counts as missed for the called user.
        #expect(bench.bench.engine.buckets.entries(of: EngineBench.bob).map(\.isOver) == [true])
        #expect(story(bench.bench.register(cseq: 2)).contains { $0.hasPrefix("push missed") })
    }

    @Test func `a phone that comes before the destination rings has the call, and the forward is cancelled`() throws {
        let bench = NoWakeBench(.forward)
        bench.call()
        let forward = try #require(bench.forward(bench.bench.pass(.milliseconds(30_100))))
        _ = bench.respond(100, to: forward)
        let back = bench.bench.register(cseq: 2)
        #expect(story(back).contains("invite > phone") && story(back).contains("cancel > pbx"))
        let invite = try #require(back.bytes.compactMap(SIPText.readRequest).last { $0.method == .invite })
        _ = bench.respond(487, to: forward)
        #expect(
            story(bench.bench.receive(SIPText.response(200, to: invite, tag: "p", contact: "sip:bob@192.0.2.5")))
                == ["200 invite > pbx"])
        #expect(bench.line.takeEnds() == ["info ended HARA 200"])
        #expect(bench.bench.engine.buckets.entries(of: EngineBench.bob).isEmpty)
    }

    @Test func `a phone that comes when the destination rings is too late`() throws {
        let bench = NoWakeBench(.forward)
        bench.call()
        let forward = try #require(bench.forward(bench.bench.pass(.milliseconds(30_100))))
        _ = bench.respond(180, to: forward)
        #expect(!story(bench.bench.register(cseq: 2)).contains("invite > phone"))
    }

    @Test(arguments: [Status(404), 486, 503, 603, 302, 401])
    func `a destination that refuses leaves the caller with the status of the settings`(status: Status) throws {
        let bench = NoWakeBench(.forward) { $0.call.noWake.status = 410 }
        bench.call()
        let forward = try #require(bench.forward(bench.bench.pass(.milliseconds(30_100))))
        #expect(bench.respond(status, to: forward).contains("410 invite > pbx"))
        #expect(bench.line.takeEnds().map { $0.suffix(8) } == ["HANT 410"])
        #expect(bench.bench.engine.heldCalls.isEmpty)
    }

    @Test func `a destination that is silent does so too`() throws {
        let bench = NoWakeBench(.forward)
        bench.call()
        let forward = try #require(bench.forward(bench.bench.pass(.milliseconds(30_100))))
        _ = bench.respond(100, to: forward)
        #expect(story(bench.bench.pass(.seconds(31))).first == "cancel > pbx")
        #expect(bench.respond(487, to: forward).contains("480 invite > pbx"))
    }

    @Test func `a caller who gives up cancels the forward`() throws {
        let bench = NoWakeBench(.forward)
        bench.call()
        let forward = try #require(bench.forward(bench.bench.pass(.milliseconds(30_100))))
        _ = bench.respond(180, to: forward)
        let given = bench.bench.cancel(callID: "call1", branch: "icall1")
        #expect(story(given).contains("cancel > pbx"))
        #expect(bench.respond(487, to: forward).contains("487 invite > pbx"))
    }

    /// A bench on which bob's call was forwarded, and then ended by an operator.
    private func endedByOperator() throws -> (NoWakeBench, SIPRequest) {
        let bench = NoWakeBench(.forward)
        bench.call()
        let forward = try #require(bench.forward(bench.bench.pass(.milliseconds(30_100))))
        let call = try #require(bench.bench.engine.heldCalls.first)
        #expect(bench.bench.engine.callEndedByOperator(call.id, with: 603, now: bench.bench.now))
        #expect(story(bench.bench.take()) == ["603 invite > pbx"])
        return (bench, forward)
    }

    @Test func `a destination that answers a call which an operator has ended gets ACK and BYE`() throws {
        let (bench, forward) = try endedByOperator()
        let answer = SIPText.response(200, to: forward, tag: "vm", contact: "sip:box@10.0.0.9")
            .replacing("Record-Route: ", with: "Record-Route: <sip:edge.example.net;lr>\r\nRecord-Route: ")
        let sent = bench.bench.receive(answer, from: EngineBench.pbx)
        #expect(story(sent) == ["ack > pbx", "bye > pbx"])
        for request in sent.compactMap({ sentRequest([$0]) }) {
            #expect(request.uri.text == ByteString("sip:box@10.0.0.9"))
            #expect(request.callID == ByteString("call1") && request.to.tag == ByteString("vm"))
            #expect(request.frame.values(of: .route).map(\.string) == ["<sip:edge.example.net;lr>"])
        }
        // The repeated 2xx, whose ACK was lost, gets another ACK, but no second BYE.
        #expect(story(bench.bench.receive(answer, from: EngineBench.pbx)) == ["ack > pbx"])
        // If a second voicemail box behind the upstream answers, it also gets an ACK and a BYE, because it has its own
        // dialog.
        #expect(
            story(
                bench.bench.receive(
                    SIPText.response(200, to: forward, tag: "vm2", contact: "sip:box2@10.0.0.9"), from: EngineBench.pbx)
            ) == ["ack > pbx", "bye > pbx"])
        #expect(bench.line.takeEnds() == ["info ended HANO 603"])
        _ = bench.bench.pass(.seconds(70))
        #expect(bench.bench.engine.figures[.transactions] == 0 && bench.bench.engine.figures[.forks] == 0)
    }

    @Test func `a destination that rings then gets the CANCEL, and its 2xx that crosses the CANCEL is hung up`() throws
    {
        let (bench, forward) = try endedByOperator()
        #expect(bench.respond(180, to: forward) == ["cancel > pbx"])
        #expect(bench.respond(200, to: forward) == ["ack > pbx", "bye > pbx"])
        _ = bench.bench.pass(.seconds(70))
        #expect(bench.bench.engine.figures[.transactions] == 0)
    }

    @Test func `a forward's 2xx after the caller's CANCEL goes to the caller`() throws {
        let bench = NoWakeBench(.forward)
        bench.call()
        let forward = try #require(bench.forward(bench.bench.pass(.milliseconds(30_100))))
        _ = bench.respond(180, to: forward)
        bench.bench.cancel(callID: "call1", branch: "icall1")
        #expect(bench.respond(200, to: forward) == ["200 invite > pbx"])
    }

    // MARK: A user without any contact

    /// A bench with a user who has a password, and whose phone has signed out.
    private func signedOut(
        _ action: NoWakeSettings.Action, upstream: String? = "sip:10.0.0.2:5060",
        _ change: (inout ProxySettings) -> Void = { _ in }
    ) -> NoWakeBench {
        let bench = NoWakeBench(action, upstream: upstream, change)
        bench.bench.register(cseq: 2, expires: 0)
        _ = bench.line.takeLines()
        return bench
    }

    @Test func `the caller of a user without a contact gets the status of the settings at once`() throws {
        let bench = signedOut(.answer) { $0.call.noWake.status = 404 }
        let sent = bench.call()
        #expect(story(sent) == ["404 invite > pbx"])
        #expect(sent.records.map(\.refusal) == [.noContact] && sent.records.map(\.endStatus) == [404])
        let line = try #require(bench.line.takeLines().first { $0.contains("call refused") })
        #expect(line.contains("code=---D status=404 reason=\"the user has no contact\""), "\(line)")
        // The record of a call to an unknown user has the reason `unknownUser`. If the called user has no contact, a
        // request that is no INVITE gets 480.
        #expect(bench.bench.invite(to: "nobody", callID: "c2", branch: "i2").records.map(\.refusal) == [.unknownUser])
        let message = bench.bench.inviteText(callID: "m", branch: "m").replacing("INVITE", with: "MESSAGE")
        #expect(story(bench.bench.receive(message, from: EngineBench.pbx)) == ["480 message > pbx"])
    }

    @Test func `a trusted caller of a user without a contact is redirected, a phone is not`() throws {
        let bench = signedOut(.redirect)
        let sent = bench.call()
        let answer = try #require(sentResponse(sent))
        #expect(answer.status == 302)
        #expect(answer.frame.values(of: .contact).map(\.string) == ["<sip:vm-bob@pbx.example.net>"])
        #expect(sent.records.map(\.endStatus) == [302])
        #expect(bench.line.takeEnds() == ["notice refused ---X 302"])
        let local = signedOut(.redirect, upstream: nil)
        let caller = Endpoint(IPAddress(v4: 0xcb00_7107), 5070)
        let told = local.bench.receive(
            SIPText.invite(to: "bob", from: "103", at: caller, callID: "p", branch: "p"), from: caller)
        #expect(story(told) == ["480 invite > 203.0.113.7:5070"])
        #expect(told.texts.allSatisfy { !$0.contains("vm-bob") })
    }

    @Test func `a call to a user without a contact is forwarded at once`() throws {
        let bench = signedOut(.forward)
        let sent = bench.call()
        #expect(story(sent) == ["100 invite > pbx", "invite > pbx"])
        let forward = try #require(bench.forward(sent))
        #expect(forward.uri.text == ByteString("sip:vm-bob@pbx.example.net"))
        #expect(forward.frame.values(of: .diversion).count == 1)
        #expect(bench.respond(180, to: forward) == ["180 invite > pbx"])
        let record = try #require(bench.bench.actions.records.first)
        #expect(record.omission == .noContact && record.end == .forwarded && record.callID == ByteString("call1"))
        #expect(bench.respond(200, to: forward) == ["200 invite > pbx"])
        let line = try #require(bench.line.takeLines().first { $0.contains("call ended") })
        #expect(line.contains("notice") && line.contains("code=---F status=200"), "\(line)")
        #expect(line.contains("reason=\"the user has no contact, so the call was forwarded\""), "\(line)")
        _ = bench.bench.pass(.seconds(120))
        #expect(bench.bench.engine.figures[.forks] == 0 && bench.bench.engine.heldCalls.isEmpty)
    }

    @Test(arguments: [Status(404), 486, 503, 603, 302, 401])
    func `a refused forward of a user without a contact leaves the status of the settings`(status: Status) throws {
        let bench = signedOut(.forward) { $0.call.noWake.status = 410 }
        let forward = try #require(bench.forward(bench.call()))
        #expect(bench.respond(status, to: forward).contains("410 invite > pbx"))
        #expect(bench.line.takeEnds() == ["notice ended ---G 410"])
        #expect(bench.bench.engine.heldCalls.isEmpty)
    }

    @Test func `a silent forward of a user without a contact ends as well, also after a crash`() throws {
        let bench = signedOut(.forward)
        let forward = try #require(bench.forward(bench.call()))
        _ = bench.respond(100, to: forward)
        #expect(story(bench.bench.pass(.seconds(31))).first == "cancel > pbx")
        #expect(bench.respond(487, to: forward).contains("480 invite > pbx"))
        let again = forwarding()
        again.told(again.bench.receive(again.bench.registerText(cseq: 2, expires: 0)))
        again.told(again.bench.invite())
        let sent = again.lastINVITE
        again.crash()
        #expect(again.answer(sent, 404, from: EngineBench.pbx).contains("480 invite > pbx"))
    }

    @Test func `a call for a user without a contact that comes back is refused, and limits hold`() {
        let bench = signedOut(.forward) { $0.limits.callsPerAccount = 2 }
        bench.call()
        #expect(story(bench.bench.invite(callID: "call1", branch: "again")) == ["482 invite > pbx"])
        let diversion = "Diversion: <sip:bob@example.net>;reason=unavailable;counter=1"
        #expect(story(bench.bench.invite(callID: "other", branch: "new", extra: [diversion])) == ["482 invite > pbx"])
        bench.call(callID: "call2")
        #expect(story(bench.call(callID: "call3")) == ["486 invite > pbx"])
    }

    @Test func `without an upstream a call to a user without a contact is not forwarded`() {
        let bench = signedOut(.forward, upstream: nil)
        #expect(story(bench.call()) == ["480 invite > pbx"])
    }

    @Test func `all tokens dead: the forward follows at once`() {
        let bench = NoWakeBench(.forward)
        let id = bench.bench.invite().pushIDs.first
        if let id { bench.bench.finish(id, .tokenDead(since: nil)) }
        #expect(story(bench.bench.take()) == ["invite > pbx"])
    }

    // MARK: Circles

    @Test func `a call that comes back to who forwarded it is refused`() {
        let bench = NoWakeBench(.forward)
        bench.call()
        _ = bench.bench.pass(.milliseconds(30_100))
        // The PBX sends the forwarded call back to the daemon: first the forwarded INVITE itself, as a proxy does, and
        // later a new INVITE.
        #expect(story(bench.bench.invite(callID: "call1", branch: "again")) == ["482 invite > pbx"])
        let diversion = "Diversion: <sip:bob@example.net>;reason=unavailable;counter=1"
        #expect(story(bench.bench.invite(callID: "other", branch: "new", extra: [diversion])) == ["482 invite > pbx"])
        #expect(bench.bench.engine.figures[.callLoop] == 2)
    }

    @Test func `two forwards that meet end after one round`() throws {
        let bench = NoWakeBench(.answer) {
            for (user, other) in [("bob", "eve"), ("eve", "bob")] {
                var settings = NoWakeSettings()
                settings.action = .forward
                settings.target = NoWakeTarget("sip:\(other)@example.net")
                $0.call.noWake.exceptions["\(user)@example.net"] = settings
            }
        }
        bench.bench.register(
            user: "eve", token: "tok2", callID: "r9", from: Endpoint(IPAddress(v4: 0xc000_0209), 40_001))
        bench.call()
        let first = try #require(bench.forward(bench.bench.pass(.milliseconds(30_100))))
        #expect(first.uri.text == ByteString("sip:eve@example.net"))
        // The PBX forwards the call by a new INVITE, which has its own Call-ID.
        let diversions = first.frame.values(of: .diversion).map { "Diversion: \($0)" }
        for id in bench.bench.invite(to: "eve", callID: "b2b1", branch: "b1", extra: diversions).pushIDs {
            bench.bench.finish(id)
        }
        bench.bench.take()
        let second = bench.bench.pass(.milliseconds(30_100)).bytes.compactMap(SIPText.readRequest)
            .last { $0.method == .invite && $0.callID == ByteString("b2b1") }
        let further = try #require(second)
        #expect(further.frame.values(of: .diversion).map { "\($0)".prefix(9) } == ["<sip:eve@", "<sip:bob@"])
        let back = further.frame.values(of: .diversion).map { "Diversion: \($0)" }
        #expect(story(bench.bench.invite(callID: "b2b2", branch: "b2", extra: back)) == ["482 invite > pbx"])
    }

    @Test func `a call that was sent on too often, or by this user for another reason, is not forwarded`() {
        for diversions in [
            ["Diversion: <sip:a@b>;counter=5"], ["Diversion: <sip:bob@example.net>;reason=user-busy"],
            (1...5).map { "Diversion: <sip:u\($0)@b>" },
        ] {
            let bench = NoWakeBench(.forward)
            bench.call(diversions)
            #expect(story(bench.bench.pass(.seconds(31))).first == "480 invite > pbx")
        }
    }

    @Test func `nothing is forwarded without an upstream, and a request without a hop left is refused`() {
        let bench = NoWakeBench(.forward, upstream: nil)
        bench.call()
        #expect(story(bench.bench.pass(.seconds(31))).first == "480 invite > pbx")
        let last = NoWakeBench(.forward)
        last.call()
        let hopless = last.bench.inviteText(callID: "m", branch: "m").replacing(
            "Max-Forwards: 70", with: "Max-Forwards: 0")
        #expect(story(last.bench.receive(hopless, from: EngineBench.pbx)) == ["483 invite > pbx"])
    }

    // MARK: The daemon sends 180 after the push

    @Test func `the caller hears ringing once, when a provider has accepted a push`() throws {
        let bench = NoWakeBench(.answer) { $0.call.noWake.ringsAfterPush = true }
        let sent = bench.bench.invite()
        #expect(story(sent) == ["100 invite > pbx", "push invite tok1"])
        if let id = sent.pushIDs.first { bench.bench.finish(id) }
        let rang = bench.bench.take()
        #expect(story(rang) == ["180 invite > pbx"])
        let answer = try #require(sentResponse(rang))
        #expect(answer.to.tag != nil && !answer.frame.contains(.contact))
        let back = bench.bench.register(cseq: 2)
        let invite = try #require(sentRequest(back))
        #expect(story(bench.bench.receive(SIPText.response(180, to: invite, tag: "p"))) == ["180 invite > pbx"])
        #expect(
            story(bench.bench.receive(SIPText.response(200, to: invite, tag: "p", contact: "sip:bob@192.0.2.5")))
                == ["200 invite > pbx"])
    }

    @Test func `not for a push that fails, nor for a caller who needs reliable responses`() {
        let failed = NoWakeBench(.answer) { $0.call.noWake.ringsAfterPush = true }
        if let id = failed.bench.invite().pushIDs.first { failed.bench.finish(id, .retry(after: nil)) }
        #expect(story(failed.bench.take()) == ["480 invite > pbx"])
        let reliable = NoWakeBench(.answer) { $0.call.noWake.ringsAfterPush = true }
        #expect(!story(reliable.call(["Require: timer, 100rel"])).contains("180 invite > pbx"))
    }

    // MARK: A phone's own record

    private func learned(_ action: NoWakeSettings.Action = .answer) -> NoWakeBench {
        let bench = NoWakeBench(action) { $0.call.noWake.usesRecord = true }
        for number in 1...10 {
            bench.call(callID: "w\(number)")
            _ = bench.bench.pass(.seconds(6))
            if let invite = sentRequest(bench.bench.register(cseq: 1 + number)) {
                bench.bench.receive(SIPText.response(486, to: invite, tag: "p"))
            }
            _ = bench.bench.pass(.seconds(60))
        }
        return bench
    }

    @Test func `a phone is waited for as long as its slowest wake took`() {
        let bench = learned()
        bench.call(callID: "x")
        #expect(story(bench.bench.pass(.milliseconds(5900))).isEmpty)
        let over = bench.bench.pass(.milliseconds(300))
        #expect(story(over).first == "480 invite > pbx")
        #expect(over.records.map(\.end) == [.boundReached])
        let forwarding = learned(.forward)
        forwarding.call(callID: "x")
        #expect(story(forwarding.bench.pass(.milliseconds(6200))) == ["invite > pbx"])
        #expect(forwarding.bench.engine.heldCalls.first?.waiting.count == 1)
    }

    /// A bench with a phone that was called ten times, and each time gave the sign of life `sign` but sent no REGISTER.
    private func returning(by sign: (NoWakeBench, _ asked: SIPRequest?) -> Void, asks: Bool) -> NoWakeBench {
        let bench = NoWakeBench(.answer) {
            $0.call.noWake.usesRecord = true
            $0.call.asksConnections = asks
            $0.call.asksDatagrams = asks
        }
        for number in 1...10 {
            let asked = bench.call(callID: "k\(number)").bytes.compactMap(SIPText.readRequest)
                .last { $0.method == .options }
            _ = bench.bench.pass(.seconds(6))
            sign(bench, asked)
            bench.bench.take()
            _ = bench.bench.pass(.seconds(100))
        }
        _ = bench.line.takeLines()
        return bench
    }

    /// Makes one more call, and returns the ends in its timeline records.
    private func waits(_ bench: NoWakeBench) -> String {
        let ends = bench.call(callID: "x").records + bench.bench.pass(.seconds(31)).records
        return ends.compactMap(\.end?.rawValue).joined(separator: " ")
    }

    @Test func `what anybody can send with the phone's address is no wake`() {
        let phone = EngineBench.udp(EngineBench.phone)
        let spoofed: [(String, (NoWakeBench) -> Void)] = [
            // The engine gets a CRLF or a STUN request as a keep-alive.
            ("keep-alive", { $0.bench.engine.flowAlive(phone, now: $0.bench.now) }),
            ("garbage", { $0.bench.receive(Array("x".utf8)) }),
            (
                "request",
                {
                    $0.bench.receive(
                        SIPText.invite(to: "bob", from: "bob", at: EngineBench.phone, callID: "o", branch: "o")
                            .replacing("INVITE", with: "OPTIONS"))
                }
            ),
            (
                "response",
                {
                    $0.bench.receive(
                        Array(
                            "SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP 10.0.0.1;branch=z9hG4bKguess\r\nFrom: <sip:a@b>;tag=1\r\nTo: <sip:c@d>;tag=2\r\nCall-ID: guess\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n"
                                .utf8))
                }
            ),
        ]
        for (name, send) in spoofed {
            // Ten wakes of six seconds each would shorten the wait of later calls, but spoofed packets do not count as
            // wakes.
            let quick = returning(by: { bench, _ in send(bench) }, asks: false)
            #expect(waits(quick) != "bound-reached", "\(name)")
            // Calls do not wait after ten pushes that woke nobody. If the phone woke once, calls would wait for the
            // phone again, but spoofed packets do not count as wakes.
            let dead = missed()
            for id in dead.bench.invite(callID: "s", branch: "s").pushIDs {
                send(dead)
                dead.bench.finish(id)
            }
            _ = dead.bench.pass(.seconds(100))
            #expect(waits(dead) == "not-waited", "\(name)")
        }
    }

    @Test func `a response to the daemon's own OPTIONS, and to the INVITE, is a wake`() {
        let asked = returning(
            by: { bench, asked in
                guard let asked else { return }
                bench.bench.receive(SIPText.response(200, to: asked, tag: "p"))
                bench.bench.cancel(callID: asked.callID.string, branch: "i")
            }, asks: true)
        #expect(waits(asked) != "not-waited")
        let answering = returning(
            by: { bench, _ in
                bench.bench.engine.flowAlive(EngineBench.udp(EngineBench.phone), now: bench.bench.now)
                guard let invite = sentRequest(bench.bench.take()) else { return }
                bench.bench.receive(SIPText.response(486, to: invite, tag: "p"))
            }, asks: false)
        #expect(waits(answering) == "bound-reached")
    }

    @Test func `without the setting the record does not count`() {
        let bench = learned()
        bench.bench.change { $0.call.noWake.usesRecord = false }
        bench.call(callID: "x")
        #expect(story(bench.bench.pass(.seconds(29))).isEmpty)
    }

    /// A bench with a phone that did not wake after ten accepted pushes.
    private func missed() -> NoWakeBench {
        let bench = NoWakeBench(.answer) { $0.call.noWake.usesRecord = true }
        for number in 1...10 {
            bench.call(callID: "m\(number)")
            #expect(story(bench.bench.pass(.seconds(31))).first == "480 invite > pbx")
            _ = bench.bench.pass(.seconds(60))
        }
        return bench
    }

    @Test func `a phone whose last ten accepted pushes woke nobody is pushed and not waited for`() {
        let bench = missed()
        let sent = bench.call(callID: "x")
        #expect(story(sent) == ["100 invite > pbx", "push invite tok1", "480 invite > pbx"])
        #expect(sent.records.map(\.end) == [.notWaited])
        // After the phone's REGISTER, calls wait for the phone again.
        bench.bench.register(cseq: 2)
        bench.call(callID: "y")
        _ = bench.bench.pass(.seconds(29))
        #expect(bench.bench.engine.heldCalls.first?.waiting.count == 1)
    }

    // MARK: The end of the process

    private func forwarding() -> RestartBench {
        let bench = RestartBench {
            $0.upstream = NextHop("sip:10.0.0.2:5060")
            $0.call.noWake.action = .forward
            $0.call.noWake.target = NoWakeTarget("sip:vm-{{user}}@pbx.example.net")
        }
        bench.register()
        return bench
    }

    private func waiting() -> RestartBench {
        let bench = forwarding()
        bench.invite()
        bench.accepted()
        return bench
    }

    @Test func `a call that waits is forwarded at its end, also by the next run`() {
        let bench = waiting()
        _ = bench.pass(.seconds(10))
        bench.crash()
        #expect(bench.pass(.milliseconds(19_200)) == ["invite > pbx"])
    }

    private func forwardedAndKilled() -> (RestartBench, SIPRequest?) {
        let bench = waiting()
        _ = bench.pass(.milliseconds(30_100))
        let forward = bench.lastINVITE
        bench.crash()
        return (bench, forward)
    }

    @Test func `a forward goes on after a crash, and its answer reaches the caller`() {
        let (bench, forward) = forwardedAndKilled()
        #expect(bench.sent.bytes.compactMap(SIPText.readRequest).last?.frame.contains(.diversion) == true)
        #expect(bench.answer(forward, 180, from: EngineBench.pbx) == ["180 invite > pbx"])
        #expect(bench.answer(forward, 200, from: EngineBench.pbx) == ["200 invite > pbx"])
        #expect(bench.bench.engine.buckets.entries(of: EngineBench.bob).map(\.isOver) == [true])
    }

    @Test func `a forward that fails after a crash ends the call`() {
        let (bench, forward) = forwardedAndKilled()
        #expect(bench.answer(forward, 404, from: EngineBench.pbx).contains("480 invite > pbx"))
        #expect(bench.bench.engine.heldCalls.isEmpty)
    }
}
