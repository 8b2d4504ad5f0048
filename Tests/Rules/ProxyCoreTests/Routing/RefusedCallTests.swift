import Addressing
import Bytes
import ProxyCore
import ProxyPolicy
import PushDelivery
import Registration
import SIPGrammar
import Telemetry
import TestSupport
import Testing
import Timekeeping

/// Tests that a refused call causes a log line at the default level, a count and a timeline record (T35.1).
@Suite("Reports of refused calls (T35.1)")
struct RefusedCallTests {
    private let sink = LineSink()

    private func bench(_ change: (inout ProxySettings) -> Void = { _ in }) -> EngineBench {
        EngineBench(
            users: TestDigest.users("bob", "eve"), log: Log(level: .notice, sink: sink) { UnixTime(milliseconds: 0) }
        ) {
            $0.authenticates = true
            change(&$0)
        }
    }

    private func lines() -> [String] { sink.take().filter { $0.contains("refused") } }

    @Test func `a PBX that is not trusted gets 407, and is reported when it shows no password`() throws {
        let bench = bench()
        let pbx = Endpoint(IPAddress(v4: 0xcb00_7107), 5060)
        let invite = SIPText.invite(to: "bob", from: "103", at: pbx, callID: "missing", branch: "m1")
        #expect(story(bench.receive(invite, from: pbx)) == ["407 invite > 203.0.113.7:5060"])
        // The caller acknowledges the refusal, and then sends nothing more.
        #expect(bench.pass(.seconds(2)).records.isEmpty && lines().isEmpty)
        let record = try #require(bench.pass(.seconds(2)).records.first)
        #expect(record.refusal == .notTrusted && record.endStatus == 407 && record.share == .stranger)
        #expect(record.source == ByteString("203.0.113.7:5060") && record.callID == ByteString("missing"))
        #expect(record.user == ByteString("bob") && record.peer.string.hasPrefix("sip:103@"))
        let line = try #require(lines().first)
        #expect(line.contains("notice call refused") && line.contains("status=407") && line.contains("203.0.113.7"))
        #expect(bench.engine.figures[.callNotTrusted] == 1)
        // A minute later, the daemon has no state of the call any more.
        #expect(bench.pass(.seconds(60)).isEmpty && bench.engine.figures[.transactions] == 0)
    }

    @Test func `a phone that answers the challenge is not reported, and a registered one is not watched`() {
        let bench = bench { $0.upstream = nil }
        #expect(!bench.receiveProved(bench.phoneText(to: "sip:eve@example.net", callID: "p1"), as: "bob").isEmpty)
        #expect(bench.pass(.seconds(10)).records.allSatisfy { $0.refusal == .noContact })
        let first = bench.receiveProved(bench.registerText(token: nil), as: "bob")
        _ = bench.commitAll(in: first)
        _ = sink.take()
        _ = bench.receive(bench.phoneText(callID: "p2"))
        #expect(bench.pass(.seconds(10)).records.isEmpty && lines().isEmpty)
    }

    @Test func `each refusal has its line, its counter and its record`() throws {
        let bench = bench { $0.limits.callsPerAccount = 1 }
        _ = bench.commitAll(in: bench.receiveProved(bench.registerText(), as: "bob"))
        func refused(_ actions: [ProxyAction]) -> String {
            let record = actions.records.first
            let line = lines().first { $0.contains("call refused") } ?? ""
            let status = record?.endStatus.map { "\($0)" } ?? "none"
            #expect(line.contains("status=\(status)"), "\(line)")
            return "\(status) \(record?.refusal?.rawValue ?? "none") \(record?.share.rawValue ?? "")"
        }
        _ = sink.take()
        #expect(refused(bench.invite(to: "nobody")) == "404 unknown-user trusted")
        #expect(refused(bench.invite(to: "eve", callID: "c2", branch: "i2")) == "480 no-contact trusted")
        let foreign = bench.inviteText(callID: "c3", branch: "i3").replacing("@example.net SIP", with: "@else.org SIP")
        #expect(refused(bench.receive(foreign, from: EngineBench.pbx)) == "403 foreign-domain trusted")
        bench.invite(callID: "c4", branch: "i4")
        #expect(refused(bench.invite(callID: "c5", branch: "i5")) == "486 callee-limit trusted")
        let other = bench.phoneText(from: "sip:eve@example.net", callID: "c6")
        #expect(refused(bench.receiveProved(other, as: "bob")) == "403 other-identity user")
        #expect(
            refused(bench.receiveProved(bench.phoneText(callID: "c7"), as: "bob", password: "guess"))
                == "407 wrong-password stranger")
        bench.change { $0.limits.calls = 1 }
        #expect(refused(bench.invite(callID: "c8", branch: "i8")) == "503 too-many-calls trusted")
        bench.engine.drainBegins()
        #expect(refused(bench.invite(callID: "c9", branch: "i9")) == "503 draining trusted")
        let counters: [Counter] = [
            .callUnknownUser, .callNoContact, .callForeignDomain, .callCalleeLimit, .callOtherIdentity,
            .callWrongPassword, .callTooManyCalls, .callDraining,
        ]
        for counter in counters { #expect(bench.engine.figures[counter] == 1, "\(counter)") }
    }

    @Test func `a wrong password of a phone is in the log, in the counters and in a record`() throws {
        let bench = bench()
        _ = bench.receiveProved(bench.registerText(callID: "r1"), as: "bob", password: "guess")
        let record = try #require(bench.actions.records.first)
        #expect(record.kind == .register && record.refusal == .wrongPassword && record.endStatus == 401)
        #expect(record.user == ByteString("bob") && record.source == ByteString("192.0.2.5:40000"))
        #expect(lines().contains { $0.contains("notice REGISTER refused") && $0.contains("wrong user or password") })
        #expect(bench.engine.figures[.registerRefused] == 1)
        _ = bench.receiveProved(bench.registerText(callID: "r2"), as: "eve")
        #expect(bench.actions.records.map(\.refusal) == [.register])
        #expect(bench.actions.records.map(\.reason) == ["the password belongs to another user"])
    }

    @Test func `without a timeline there are lines and no records`() {
        let bench = bench { $0.timelineLimit = 0 }
        #expect(bench.invite(to: "nobody").records.isEmpty)
        #expect(lines().count == 1)
    }
}
