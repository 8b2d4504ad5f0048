import Addressing
import Bytes
import ProxyCore
import ProxyPolicy
import PushDelivery
import Registration
import SIPGrammar
import Telemetry
import Testing
import TestSupport
import Timekeeping

/// An INVITE that the daemon refuses, its sender, and the expected result.
private struct Refused: Sendable, CustomTestStringConvertible {
    enum Sender: Sendable { case stranger, user, pbx }

    let name: String
    let sender: Sender
    let status: UInt16
    let refusal: Refusal
    /// A change to the settings before the INVITE is sent.
    var settings: @Sendable (inout ProxySettings) -> Void = { _ in }
    var edits: [(String, String)] = []
    var prepare: @Sendable (EngineBench) -> Void = { _ in }
    /// The password with which the sender answers a challenge; `nil` for bob's password.
    var password: String?
    var from = "sip:bob@example.net"
    var target = "sip:200@example.net"
    /// The address from which the user sends the INVITE.
    var source = EngineBench.phone

    var testDescription: String { name }
}

private let wrong = "guess"
private let elsewhere = Endpoint(IPAddress(v4: 0xcb00_710a), 40_000)

/// Tests that each refusal of an INVITE causes one log line, one timeline record and one count (T35.1).
@Suite("Each refused call has one line (T35.1)")
struct EachRefusalTests {
    private static let cases: [Refused] = [
        Refused(name: "wrong password", sender: .user, status: 407, refusal: .wrongPassword, password: wrong),
        Refused(
            name: "another From", sender: .user, status: 403, refusal: .otherIdentity, from: "sip:eve@example.net"),
        Refused(
            name: "too many wrong passwords", sender: .user, status: 503, refusal: .wrongLogins,
            settings: { $0.limits.wrongLoginsPerSource = 1 },
            prepare: {
                $0.receiveProved($0.phoneText(callID: "p0"), as: "bob", password: wrong, from: elsewhere)
            }, password: wrong, source: elsewhere),
        Refused(name: "not trusted", sender: .stranger, status: 407, refusal: .notTrusted),
        Refused(
            name: "foreign domain of a stranger", sender: .stranger, status: 403, refusal: .foreignDomain,
            edits: [("bob@example.net SIP", "bob@else.org SIP")]),
        Refused(
            name: "no hop left", sender: .stranger, status: 483, refusal: .loop,
            edits: [("Max-Forwards: 70", "Max-Forwards: 0")]),
        Refused(
            name: "unknown extension", sender: .stranger, status: 420, refusal: .unfit,
            edits: [("Max-Forwards: 70", "Max-Forwards: 70\r\nProxy-Require: foo")]),
        Refused(
            name: "unknown scheme", sender: .stranger, status: 416, refusal: .unfit,
            edits: [("INVITE sip:bob@example.net", "INVITE mailto:bob@example.net")]),
        Refused(
            name: "odd breadth", sender: .stranger, status: 400, refusal: .unfit,
            edits: [("Max-Forwards: 70", "Max-Breadth: x")]),
        Refused(
            name: "two Call-IDs", sender: .stranger, status: 400, refusal: .unfit,
            edits: [("Max-Forwards: 70", "Max-Forwards: 70\r\nCall-ID: other")]),
        Refused(
            name: "another method in CSeq", sender: .stranger, status: 400, refusal: .unfit,
            edits: [("CSeq: 1 INVITE", "CSeq: 1 BYE")]),
        Refused(
            name: "malformed, of the PBX", sender: .pbx, status: 400, refusal: .unfit,
            edits: [("CSeq: 1 INVITE", "CSeq: 2 BYE")]),
        Refused(
            name: "unknown user", sender: .pbx, status: 404, refusal: .unknownUser,
            edits: [("bob@example.net SIP", "nobody@example.net SIP")]),
        Refused(
            name: "foreign domain of the PBX", sender: .pbx, status: 403, refusal: .foreignDomain,
            edits: [("bob@example.net SIP", "bob@else.org SIP")]),
        Refused(
            name: "no contact", sender: .pbx, status: 480, refusal: .noContact,
            edits: [("bob@example.net SIP", "eve@example.net SIP")]),
        Refused(
            name: "callee's limit", sender: .pbx, status: 486, refusal: .calleeLimit,
            settings: { $0.limits.callsPerAccount = 1 }, prepare: { $0.invite(callID: "other", branch: "other") }),
        Refused(
            name: "limit of calls", sender: .pbx, status: 503, refusal: .tooManyCalls,
            settings: { $0.limits.calls = 1 }, prepare: { $0.invite(callID: "other", branch: "other") }),
        Refused(
            name: "caller's share", sender: .user, status: 503, refusal: .callerLimit,
            settings: { $0.limits.callsPerAccount = 1 },
            prepare: { $0.receiveProved($0.phoneText(to: "sip:bob@example.net", callID: "other"), as: "bob") },
            target: "sip:bob@example.net"),
        Refused(
            name: "no protected way", sender: .pbx, status: 480, refusal: .notSecure,
            edits: [("INVITE sip:bob", "INVITE sips:bob")]),
        Refused(
            name: "no breadth left", sender: .pbx, status: 440, refusal: .loop,
            edits: [("Max-Forwards: 70", "Max-Forwards: 70\r\nMax-Breadth: 0")]),
        Refused(
            name: "the same call again", sender: .pbx, status: 482, refusal: .loop,
            prepare: { $0.invite(callID: "told", branch: "other") }),
        Refused(name: "draining", sender: .pbx, status: 503, refusal: .draining, prepare: { $0.engine.drainBegins() }),
    ]

    @Test(arguments: cases)
    private func `a refused call leaves one line, one record and no second line`(refused: Refused) throws {
        let sink = LineSink()
        let bench = EngineBench(
            users: TestDigest.users("bob", "eve"), log: Log(level: .notice, sink: sink) { UnixTime(milliseconds: 0) }
        ) {
            $0.authenticates = true
            refused.settings(&$0)
        }
        _ = bench.commitAll(in: bench.receiveProved(bench.registerText(), as: "bob"))
        refused.prepare(bench)
        _ = sink.take()
        let source =
            switch refused.sender {
            case .pbx: EngineBench.pbx
            case .stranger: Endpoint(IPAddress(v4: 0xcb00_7109), 5060)
            case .user: refused.source
            }
        var records: [TimelineRecord] = []
        if refused.sender == .user {
            bench.receiveProved(
                bench.phoneText(to: refused.target, from: refused.from, callID: "told"), as: "bob",
                password: refused.password, from: source
            )
            records += bench.actions.records
        } else {
            var invite = SIPText.invite(to: "bob", from: "103", at: source, callID: "told", branch: "told")
            for (old, new) in refused.edits { invite = invite.replacing(old, with: new) }
            let sent = bench.receive(invite, from: source)
            #expect(sentResponse(sent)?.status == Status(code: refused.status))
            records += sent.records
        }
        // The daemon reports the refusal only after three seconds, because the password may still follow.
        records += bench.pass(.seconds(4)).records
        let lines = sink.take().filter { $0.contains("call-id=told") }
        #expect(lines.count == 1, "\(lines)")
        let line = try #require(lines.first)
        #expect(
            line.contains(" notice call refused ") && line.contains("code=---D status=\(refused.status)"), "\(line)")
        #expect(line.contains("source=\(source)"), "\(line)")
        let told = records.filter { $0.callID == ByteString("told") }
        #expect(told.map(\.refusal) == [refused.refusal])
        #expect(told.map(\.endStatus) == [refused.status])
    }

    @Test func `a thousand malformed INVITEs leave ten lines, and the PBX's refusal has its own`() {
        let sink = LineSink()
        let bench = EngineBench(log: Log(level: .notice, sink: sink) { UnixTime(milliseconds: 0) })
        for number in 0..<1000 {
            let source = Endpoint(IPAddress(v4: 0xcb00_7100 + UInt32(number % 50)), 5060)
            bench.receive(
                SIPText.invite(to: "bob", from: "103", at: source, callID: "m\(number)", branch: "m\(number)")
                    .replacing("CSeq: 1 INVITE", with: "CSeq: 1 BYE"), from: source)
        }
        #expect(sink.take().filter { $0.contains("call refused") }.count == 10)
        bench.invite(to: "nobody", callID: "own", branch: "own")
        #expect(sink.take().filter { $0.contains("call-id=own") }.count == 1)
    }

    @Test func `a MESSAGE, refused or delivered, has no line of a call`() {
        let sink = LineSink()
        let bench = EngineBench(log: Log(level: .info, sink: sink) { UnixTime(milliseconds: 0) })
        bench.register()
        for (user, callID) in [("bob", "m1"), ("nobody", "m2")] {
            bench.receive(
                bench.inviteText(to: user, callID: callID, branch: callID).replacing("INVITE", with: "MESSAGE"),
                from: EngineBench.pbx)
        }
        _ = bench.pass(.seconds(60))
        bench.receive(
            bench.inviteText(callID: "m3", branch: "m3").replacing("INVITE", with: "MESSAGE")
                .replacing("Max-Forwards: 70", with: "Max-Forwards: 0"), from: EngineBench.pbx)
        #expect(sink.take().allSatisfy { !$0.contains(" call ended ") && !$0.contains(" call refused ") })
    }
}
