import Addressing
import Bytes
import ProxyCore
import ProxyPolicy
import PushDelivery
import Registration
import Routing
import SIPGrammar
import TestSupport
import Testing
import Timekeeping

/// Tests that INVITEs from phones to the upstream, and INVITEs inside dialogs, survive a crash of the daemon.
@Suite struct OnwardRestartTests {
    // MARK: To the upstream

    private static func calling(_ upstream: String = "sip:10.0.0.2:5060", hasTLS: Bool = false) -> RestartBench {
        let bench = RestartBench(hasTLS: hasTLS) { $0.upstream = NextHop(upstream) }
        bench.register("103")
        bench.told(bench.bench.receive(bench.bench.inviteText()))
        return bench
    }

    private static func answered(_ invite: SIPRequest?, _ status: Status, _ bench: RestartBench) -> [String] {
        bench.answer(invite, status, from: EngineBench.pbx)
    }

    @Test func `a phone's call rings on, and its answer reaches the phone`() {
        let bench = Self.calling()
        let invite = bench.lastINVITE
        #expect(Self.answered(invite, 180, bench) == ["180 invite > phone"])
        // After the crash, the daemon sends the INVITE again, so that the upstream repeats its answer.
        #expect(bench.crash() == ["invite > pbx"])
        #expect(bench.lastINVITE?.via.branch == invite?.via.branch)
        #expect(Self.answered(invite, 180, bench) == ["180 invite > phone"])
        #expect(Self.answered(invite, 200, bench) == ["200 invite > phone"])
        #expect(bench.pass(.seconds(40)).isEmpty)
        #expect(bench.disk.calls.isEmpty)
    }

    @Test func `the forwarded request is the same as before`() throws {
        let bench = Self.calling()
        let before = try #require(bench.lastINVITE)
        bench.crash()
        let after = try #require(bench.lastINVITE)
        let rows = { (request: SIPRequest) in
            String(decoding: request.frame.bytes.array, as: UTF8.self).split(separator: "\r\n")
                .filter { !$0.hasPrefix("Record-Route") }
        }
        #expect(rows(before) == rows(after))
        #expect(after.frame.values(of: .recordRoute).count == before.frame.values(of: .recordRoute).count)
    }

    @Test func `the phone's CANCEL reaches the upstream`() throws {
        let bench = Self.calling()
        let invite = bench.lastINVITE
        bench.crash()
        let cancel = SIPText.hopRequest("CANCEL", for: try #require(readRequest(bench.bench.inviteText())))
        #expect(bench.told(bench.bench.receive(cancel)) == ["200 cancel > phone"])
        #expect(Self.answered(invite, 180, bench) == ["cancel > pbx"])
        #expect(Self.answered(invite, 487, bench) == ["ack > pbx", "487 invite > phone"])
    }

    @Test func `a call that has ended does not begin again`() {
        let bench = Self.calling()
        #expect(Self.answered(bench.lastINVITE, 486, bench) == ["ack > pbx", "486 invite > phone"])
        // After the crash, the daemon sends the response again, because the phone has not acknowledged it.
        #expect(bench.crash() == ["486 invite > phone"])
        #expect(bench.pass(.seconds(40)).allSatisfy { $0 == "486 invite > phone" })
        #expect(bench.disk.calls.isEmpty)
    }

    @Test func `an upstream whose name was being looked up is looked up again`() {
        let bench = Self.calling("sip:pbx.example.org")
        #expect(bench.lastINVITE == nil)
        #expect(bench.crash() == ["resolve"])
        #expect(Self.resolved(bench, .udp) == ["invite > pbx"])
        #expect(Self.answered(bench.lastINVITE, 200, bench) == ["200 invite > phone"])
    }

    @Test func `over TLS the upstream's name is looked up first, and it gets the same INVITE`() {
        let bench = Self.calling("sips:pbx.example.org", hasTLS: true)
        #expect(Self.resolved(bench, .tls) == ["invite > pbx"])
        let branch = bench.lastINVITE?.via.branch
        #expect(bench.crash() == ["resolve"])
        #expect(Self.resolved(bench, .tls) == ["invite > pbx"])
        #expect(branch != nil && bench.lastINVITE?.via.branch == branch)
        let servers = bench.sent.compactMap { action -> ServerNumber? in
            if case .send(_, let flow) = action { flow.server } else { nil }
        }
        #expect(servers == [ServerNumber(7)])
    }

    private static func resolved(_ bench: RestartBench, _ transport: Transport) -> [String] {
        for case .resolve(_, let ticket) in bench.sent {
            bench.bench.engine.resolved(
                ticket,
                to: [
                    ResolvedHop(
                        transport: transport, endpoint: EngineBench.pbx,
                        server: transport == .tls ? ServerNumber(7) : .none)
                ], now: bench.bench.now)
        }
        return bench.told(bench.bench.take())
    }

    @Test func `a phone that called by a connection gets the answer by its next one`() throws {
        let bench = RestartBench { $0.upstream = NextHop("sip:10.0.0.2:5060") }
        bench.registerByStream(1)
        let invite = SIPText.invite(
            to: "103", from: "bob", at: RestartBench.stream(1).remote, callID: "up1", branch: "up1")
        let tcp = String(decoding: invite, as: UTF8.self).replacing("SIP/2.0/UDP", with: "SIP/2.0/TCP")
        bench.told(bench.bench.receive(Array(tcp.utf8), on: RestartBench.stream(1)))
        let sent = try #require(bench.lastINVITE)
        #expect(bench.crash() == ["invite > pbx"])
        bench.registerByStream(2)
        #expect(Self.answered(sent, 200, bench) == ["200 invite > \(RestartBench.stream(2).remote)"])
    }

    // MARK: Inside dialogs

    /// A bench with a call that a phone over TCP has answered. The phone's connection has ended, and a re-INVITE waits
    /// for the phone.
    private static func waitingInDialog() throws -> RestartBench {
        let bench = RestartBench()
        bench.registerByStream(1)
        _ = bench.pass(.seconds(60))
        let sent = bench.bench.inviteText()
        let invite = try #require(readRequest(sent))
        bench.invite()
        bench.accepted()
        bench.registerByStream(2)
        let delivered = try #require(bench.lastINVITE)
        bench.told(
            bench.bench.receive(
                SIPText.response(200, to: delivered, tag: "p1", contact: "sip:bob@192.0.2.5;transport=tcp"),
                on: RestartBench.stream(2)))
        let answer = try #require(bench.lastResponse)
        #expect(bench.acknowledgeAnswer(answer) == ["ack > \(RestartBench.stream(2).remote)"])
        bench.bench.engine.flowClosed(RestartBench.stream(2), now: bench.bench.now)
        bench.told(bench.bench.take())
        _ = bench.pass(.seconds(6))
        #expect(bench.disk.calls.isEmpty)
        let again = SIPText.dialogRequest(
            "INVITE", cseq: 2, invite: invite, answer: answer, at: EngineBench.pbx, branch: "again")
        let story = bench.told(bench.bench.receive(again, from: EngineBench.pbx))
        #expect(story.first == "100 invite > pbx" && bench.pushes.count == 2, "\(story)")
        return bench
    }

    @Test func `a re-INVITE that waits for its phone keeps waiting, and reaches it`() throws {
        let bench = try Self.waitingInDialog()
        bench.accepted(1)
        #expect(bench.crash() == [])
        let story = bench.registerByStream(3)
        #expect(story.last == "invite > \(RestartBench.stream(3).remote)", "\(story)")
        let invite = try #require(bench.lastINVITE)
        #expect(
            bench.told(
                bench.bench.receive(SIPText.response(200, to: invite, tag: "p1"), on: RestartBench.stream(3)))
                == ["200 invite > pbx"])
        #expect(bench.pass(.seconds(40)).isEmpty)
        #expect(bench.disk.calls.isEmpty)
    }

    @Test func `the push for a re-INVITE that was in flight is sent with the same id`() throws {
        let bench = try Self.waitingInDialog()
        bench.crash()
        #expect(bench.pushes.count == 3 && bench.pushes[2].code == bench.pushes[1].code)
        bench.accepted(2)
        bench.crash()
        #expect(bench.pushes.count == 3)
    }

    @Test func `a re-INVITE waits no longer than it would have`() throws {
        let bench = try Self.waitingInDialog()
        bench.accepted(1)
        bench.crash(downFor: .seconds(20))
        #expect(bench.pass(.seconds(9)) == [])
        #expect(bench.pass(.seconds(2)).first == "500 invite > pbx")
    }

    @Test func `a re-INVITE to the upstream continues`() throws {
        let bench = RestartBench { $0.upstream = NextHop("sip:10.0.0.2:5060") }
        bench.register("103")
        let text = SIPText.invite(to: "bob", from: "103", at: EngineBench.phone, callID: "up2", branch: "up2")
        bench.told(bench.bench.receive(text))
        let sent = try #require(bench.lastINVITE)
        bench.told(
            bench.bench.receive(
                SIPText.response(200, to: sent, tag: "u1", contact: "sip:bob@10.0.0.2:5060"), from: EngineBench.pbx))
        let answer = try #require(bench.lastResponse)
        _ = bench.pass(.seconds(6))
        let again = SIPText.dialogRequest(
            "INVITE", cseq: 2, invite: try #require(readRequest(text)), answer: answer, at: EngineBench.phone,
            branch: "again")
        #expect(bench.told(bench.bench.receive(again)) == ["100 invite > phone", "invite > pbx"])
        #expect(bench.crash() == ["invite > pbx"])
        #expect(bench.lastINVITE?.frame.contains(.recordRoute) == false)
        #expect(Self.answered(bench.lastINVITE, 200, bench) == ["200 invite > phone"])
    }
}
