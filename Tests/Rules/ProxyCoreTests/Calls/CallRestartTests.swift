import Addressing
import Bytes
import ProxyCore
import ProxyPolicy
import PushDelivery
import PushPlanning
import Registration
import Routing
import SIPGrammar
import TestSupport
import Testing
import Timekeeping

/// Tests that calls continue in the next run of the daemon after it was killed.
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

    /// A batch may contain a journal entry and the actions that depend on it, because the shell writes the journal
    /// first.
    @Test func `a push, an INVITE and an end come in one batch with the entries that must be written before them`() {
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

    @Test func `a call that waits continues: retransmissions, a phone that registers, its answer`() {
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

    @Test func `an accepted push is not sent again, and one in flight is sent with the same id`() throws {
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

    @Test func `the waiting time continues by the date`() {
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

    @Test func `a clock that was set back does not extend a call`() {
        let bench = Self.held()
        bench.accepted()
        bench.crash(downFor: .seconds(-3600))
        #expect(bench.pass(.seconds(31)).contains("480 invite > pbx"))
    }

    @Test func `a CANCEL ends it, and a phone that registers then gets a missed call`() {
        let bench = Self.held()
        bench.accepted()
        bench.crash()
        #expect(bench.cancel() == ["200 cancel > pbx", "487 invite > pbx"])
        #expect(bench.acknowledge(bench.lastResponse) == [])
        #expect(bench.register(cseq: 2).contains { $0.hasPrefix("push missed") })
        _ = bench.pass(.seconds(1))
        #expect(bench.disk.calls.isEmpty)
    }

    // MARK: Missed calls

    @Test func `a call that was answered or refused by its phone never has a row of missed calls`() {
        for status in [Status.ok, .busyHere] {
            let bench = RestartBench()
            bench.register()
            bench.invite()
            bench.accepted()
            bench.register(cseq: 2)
            bench.answer(bench.lastINVITE, status)
            #expect(!bench.written.contains("missed") && bench.written.contains("begun 1"))
            #expect(bench.disk.restored().bucketEntries.isEmpty)
        }
    }

    @Test func `a call that no phone came for has its row before its caller gets the end`() {
        let bench = Self.held()
        bench.accepted()
        bench.crash()
        bench.written = []
        #expect(bench.pass(.seconds(31)).contains("480 invite > pbx"))
        #expect(bench.written == ["final", "missed", "branch 0"])
        #expect(bench.disk.restored().bucketEntries.map(\.entry.isOver) == [true])
        bench.crash()
        #expect(bench.register(cseq: 2).contains { $0.hasPrefix("push missed") })
    }

    @Test func `a call that cannot continue is a missed call`() {
        let bench = Self.offeredOverTLS()
        bench.accepted()
        bench.hasTLS = false
        bench.crash()
        #expect(bench.disk.calls.isEmpty)
        #expect(bench.disk.restored().bucketEntries.map(\.entry.caller) == [ByteString("103")])
        #expect(bench.register(cseq: 2).contains { $0.hasPrefix("push missed") })
    }

    @Test func `of two phones, the one that rang before the crash has no missed call`() {
        let bench = RestartBench()
        let other = Endpoint(IPAddress(v4: 0xc000_0206), 40_000)
        bench.register()
        bench.register(token: "tok2", cseq: 2, from: other)
        _ = bench.pass(.seconds(60))
        bench.invite()
        #expect(bench.pushes.count == 2)
        bench.register(cseq: 3)
        let invite = bench.lastINVITE
        bench.answer(invite, 180)
        bench.crash()
        #expect(bench.cancel().contains("200 cancel > pbx"))
        bench.answer(invite, 487)
        _ = bench.pass(.seconds(40))
        #expect(!bench.register(cseq: 4).contains { $0.hasPrefix("push missed") })
        #expect(bench.register(token: "tok2", cseq: 5, from: other).contains { $0.hasPrefix("push missed") })
    }

    @Test func `a phone that answers when its wait is over has the call in the next run, too`() {
        let bench = RestartBench()
        let other = Endpoint(IPAddress(v4: 0xc000_0206), 40_000)
        bench.register()
        bench.register(token: nil, cseq: 2, from: other)
        _ = bench.pass(.seconds(60))
        bench.invite()
        let ringing = bench.lastINVITE
        bench.answer(ringing, 180, from: other)
        bench.accepted()
        bench.register(cseq: 3)
        let invite = bench.lastINVITE
        bench.answer(invite, 180)
        bench.crash()
        bench.answer(ringing, 180, from: other)
        // The phone sends no response to the repeated INVITE, so its transaction times out; the user's second phone
        // still rings.
        _ = bench.pass(.seconds(31))
        #expect(bench.answer(invite, 200).contains("200 invite > pbx"))
        bench.crash()
        #expect(bench.answer(invite, 200).contains("200 invite > pbx"))
    }

    @Test func `a phone that has gone for good does not keep a missed call`() {
        let bench = Self.held()
        bench.accepted()
        bench.told(bench.bench.receive(bench.bench.registerText(token: "tok1", cseq: 2, expires: 0)))
        bench.crash()
        _ = bench.pass(.seconds(40))
        #expect(bench.disk.restored().bucketEntries.isEmpty)
    }

    // MARK: Calls that ring

    @Test func `a phone that rings is reached, and its answer reaches the caller`() {
        let (bench, invite) = Self.ringing()
        // After the crash, the daemon sends the INVITE again, so that the phone repeats its last response.
        #expect(bench.crash() == ["invite > phone"])
        #expect(bench.lastINVITE?.via.branch == invite?.via.branch)
        #expect(bench.answer(invite, 180) == ["180 invite > pbx"])
        #expect(bench.answer(invite, 200) == ["200 invite > pbx"])
        // The daemon forwards each repeated 200 of the phone, because no ACK arrives before or after the crash.
        #expect(bench.answer(invite, 200) == ["200 invite > pbx"])
        #expect(bench.crash() == [])
        #expect(bench.answer(invite, 200) == ["200 invite > pbx"])
        #expect(bench.pass(.seconds(40)).isEmpty)
        #expect(bench.disk.calls.isEmpty)
    }

    @Test(arguments: [2, 6, 31])
    func `a 200 without its ACK is forwarded by the next run as long as its phone repeats it`(seconds: Int) {
        let (bench, invite) = Self.ringing()
        #expect(bench.answer(invite, 200) == ["200 invite > pbx"])
        #expect(bench.pass(.seconds(seconds)).isEmpty)
        #expect(bench.crash() == [])
        #expect(bench.answer(invite, 200) == ["200 invite > pbx"])
        #expect(bench.pass(.seconds(33)).isEmpty)
        #expect(bench.disk.calls.isEmpty)
    }

    @Test func `after its ACK an answered call is kept for a moment`() throws {
        let (bench, invite) = Self.ringing()
        bench.answer(invite, 200)
        let answer = try #require(bench.lastResponse)
        #expect(bench.acknowledgeAnswer(answer) == ["ack > phone"])
        // The proxy has forwarded the ACK, but the network loses the ACK.
        #expect(bench.pass(.seconds(4)).isEmpty)
        #expect(bench.disk.calls.count == 1)
        bench.crash()
        #expect(bench.answer(invite, 200) == ["200 invite > pbx"])
        #expect(bench.pass(.seconds(33)).isEmpty)
        #expect(bench.disk.calls.isEmpty)
    }

    @Test func `a call whose ACK has passed is not kept for longer than the moment`() throws {
        let (bench, invite) = Self.ringing()
        bench.answer(invite, 200)
        _ = bench.acknowledgeAnswer(try #require(bench.lastResponse))
        #expect(bench.pass(.seconds(6)).isEmpty)
        #expect(bench.disk.calls.isEmpty)
    }

    @Test func `a late ACK, or one for another answer, ends nothing early`() throws {
        let (bench, invite) = Self.ringing()
        bench.answer(invite, 200)
        let answer = try #require(bench.lastResponse)
        #expect(bench.acknowledgeAnswer(answer, cseq: 2) == ["ack > phone"])
        _ = bench.pass(.seconds(3))
        #expect(bench.acknowledgeAnswer(answer) == ["ack > phone"])
        _ = bench.pass(.seconds(28))
        #expect(bench.disk.calls.count == 1)
        _ = bench.pass(.seconds(2))
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

    @Test func `a final response that was not acknowledged is sent again unchanged`() {
        let (bench, invite) = Self.ringing()
        #expect(bench.answer(invite, 486) == ["ack > phone", "486 invite > pbx"])
        let first = bench.sent.bytes.last
        #expect(bench.crash() == ["486 invite > pbx"])
        #expect(bench.sent.bytes.last == first)
        #expect(bench.acknowledge(bench.lastResponse) == [])
        #expect(bench.pass(.seconds(10)).isEmpty)
        #expect(bench.crash() == [])
    }

    /// A phone that rings over TCP when the daemon is killed, and reconnects after the restart.
    private static func ringingByStream() -> (bench: RestartBench, first: SIPRequest?, second: SIPRequest?) {
        let bench = RestartBench()
        _ = bench.registerByStream(1)
        _ = bench.pass(.seconds(60))
        bench.invite()
        bench.accepted()
        _ = bench.registerByStream(2)
        let first = bench.lastINVITE
        if let first {
            bench.told(bench.bench.receive(SIPText.response(180, to: first, tag: "p1"), on: RestartBench.stream(2)))
        }
        #expect(bench.crash() == [])
        let story = bench.registerByStream(3)
        #expect(story.contains { $0.hasPrefix("invite > 192") }, "\(story)")
        return (bench, first, bench.lastINVITE)
    }

    @Test func `a phone that came before its push was accepted is not pushed again, over any number of crashes`() {
        let bench = RestartBench()
        _ = bench.registerByStream(1)
        _ = bench.pass(.seconds(60))
        bench.invite()
        _ = bench.registerByStream(2)
        #expect(bench.lastINVITE != nil && bench.pushes.count == 1)
        for _ in 0..<3 { #expect(bench.crash() == []) }
        #expect(bench.pushes.count == 1)
    }

    /// A bench with a call from the PBX over TLS, for which a phone gets a push.
    private static func offeredOverTLS() -> RestartBench {
        let bench = RestartBench(hasTLS: true)
        bench.register()
        let text = String(decoding: bench.bench.inviteText(), as: UTF8.self)
        let secure = text.replacing("SIP/2.0/UDP 10.0.0.2:5060", with: "SIP/2.0/TLS pbx.example.org:5071")
        let flow = tls(5, port: 47_000)
        _ = bench.bench.engine.namesProved(["pbx.example.org"], on: flow)
        bench.told(bench.bench.receive(Array(secure.utf8), on: flow))
        return bench
    }

    /// A bench with a call from the PBX over TLS to a phone that rings over UDP. The returned ticket belongs to the
    /// look-up of the PBX's address, which the engine starts after the crash.
    private static func calledOverTLS() throws -> (bench: RestartBench, invite: SIPRequest, ticket: ResolutionTicket) {
        let bench = offeredOverTLS()
        bench.accepted()
        bench.register(cseq: 2)
        let invite = try #require(bench.lastINVITE)
        bench.crash()
        let tickets = bench.sent.compactMap { action -> ResolutionTicket? in
            if case .resolve(let hop, let ticket) = action, hop.host == "pbx.example.org" && hop.port == 5071 {
                return ticket
            }
            return nil
        }
        return (bench, invite, try #require(tickets.first))
    }

    private static func tls(_ connection: UInt64, port: UInt16) -> Flow {
        Flow(
            transport: .tls, listener: 2, connection: connection,
            remote: Endpoint(EngineBench.pbx.address, port))
    }

    private static func found(_ place: Endpoint, _ bench: RestartBench, _ ticket: ResolutionTicket) -> [String] {
        let hop = ResolvedHop(transport: .tls, endpoint: place, server: ServerNumber(7))
        bench.bench.engine.resolved(ticket, to: [hop], now: bench.bench.now)
        return bench.told(bench.bench.take())
    }

    /// Finds the flow on which the daemon sent the final response.
    private static func final(_ invite: SIPRequest, _ bench: RestartBench) -> Flow? {
        bench.answer(invite, 486)
        for case .send(let bytes, let flow) in bench.sent
        where String(decoding: bytes.prefix(11), as: UTF8.self) == "SIP/2.0 486" {
            return flow
        }
        return nil
    }

    @Test func `a PBX that called over TLS is called back at the address of its Via, and has to prove its name`() throws
    {
        let (bench, invite, ticket) = try Self.calledOverTLS()
        #expect(Self.found(Endpoint(EngineBench.pbx.address, 5071), bench, ticket) == [])
        let flow = try #require(Self.final(invite, bench))
        #expect(flow.transport == .tls && flow.connection == 0 && flow.server == ServerNumber(7))
        #expect(flow.remote == Endpoint(EngineBench.pbx.address, 5071))
    }

    @Test
    func
        `a caller that reconnects before the look-up ends keeps its connection, and a later one gets the response too`()
        throws
    {
        for isEarly in [true, false] {
            let (bench, invite, ticket) = try Self.calledOverTLS()
            let back = Self.tls(9, port: 48_000)
            let options = bench.bench.inviteText(branch: "o").replacing("INVITE", with: "OPTIONS")
            if !isEarly { _ = Self.found(Endpoint(EngineBench.pbx.address, 5071), bench, ticket) }
            bench.told(bench.bench.receive(options, on: back))
            if isEarly { _ = Self.found(Endpoint(EngineBench.pbx.address, 5071), bench, ticket) }
            #expect(Self.final(invite, bench) == back)
        }
    }

    @Test func `no other address is called in the place of a PBX`() throws {
        let (bench, invite, ticket) = try Self.calledOverTLS()
        #expect(Self.found(Endpoint(IPAddress(v4: 0x0a00_0009), 5071), bench, ticket) == [])
        #expect(Self.final(invite, bench)?.isClosed == true)
    }

    @Test func `a phone whose connection has ended rings on its new one`() throws {
        let (bench, first, second) = Self.ringingByStream()
        #expect(first?.via.branch != second?.via.branch)
        let answer = SIPText.response(200, to: try #require(second), tag: "p1")
        #expect(bench.told(bench.bench.receive(answer, on: RestartBench.stream(3))).contains("200 invite > pbx"))
    }

    @Test func `an answer that a phone gave while no daemon ran counts when the phone is back`() throws {
        let (bench, first, second) = Self.ringingByStream()
        let met = SIPText.response(482, to: try #require(second), tag: "p1")
        #expect(!bench.told(bench.bench.receive(met, on: RestartBench.stream(3))).contains("482 invite > pbx"))
        // Even after a second crash, the daemon accepts the phone's 200 to its first INVITE.
        bench.crash()
        _ = bench.registerByStream(4)
        let answer = SIPText.response(200, to: try #require(first), tag: "p1")
        #expect(bench.told(bench.bench.receive(answer, on: RestartBench.stream(4))).contains("200 invite > pbx"))
    }

    @Test(arguments: [false, true], [0, 1, 2])
    func `an answer to an INVITE of two runs ago counts, although the phone has refused later ones`(
        refuses: Bool, after steps: Int
    ) throws {
        let (bench, first, second) = Self.ringingByStream()
        if refuses, let second {
            bench.told(bench.bench.receive(SIPText.response(482, to: second, tag: "p1"), on: RestartBench.stream(3)))
        }
        #expect(bench.crash() == [])
        let answer = SIPText.response(200, to: try #require(first), tag: "p1")
        if steps > 0 { bench.registerByStream(4) }
        if steps > 1, let third = bench.lastINVITE {
            bench.told(bench.bench.receive(SIPText.response(482, to: third, tag: "p1"), on: RestartBench.stream(4)))
        }
        var story = bench.told(bench.bench.receive(answer, on: RestartBench.stream(4)))
        if steps == 0 {
            // The daemon does not forward the phone's answer, because anybody could send an answer on a new connection
            // (T9.20). The phone repeats its 200 until it receives the ACK.
            #expect(!story.contains("200 invite > pbx"), "\(story)")
            bench.registerByStream(4)
            story = bench.told(bench.bench.receive(answer, on: RestartBench.stream(4)))
        }
        #expect(story.contains("200 invite > pbx"), "\(story)")
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

    @Test func `a device that was removed in the meantime is not waited for`() {
        let bench = Self.held { $0.call.ringTimeout = .seconds(60) }
        bench.accepted()
        bench.told(
            bench.bench.receive(bench.bench.registerText(cseq: 2, expires: 0), from: EngineBench.phone))
        #expect(bench.crash().filter { $0.hasPrefix("push") }.isEmpty)
    }

    @Test(arguments: [false, true])
    func `a cancelled call ends if its phone has sent nothing since the start`(moves: Bool) {
        let (bench, _) = Self.ringing()
        bench.crash()
        #expect(bench.told(bench.bench.cancel()).contains("200 cancel > pbx"))
        _ = bench.pass(.seconds(5))
        if moves { bench.register(cseq: 3, from: Endpoint(EngineBench.phone.address, 7777)) }
        #expect(bench.pass(.seconds(40)).contains { $0.hasSuffix("invite > pbx") })
    }

    @Test func `a call is one record in the timeline, over any number of runs`() {
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
