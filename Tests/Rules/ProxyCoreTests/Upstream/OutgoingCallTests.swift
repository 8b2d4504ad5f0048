import Addressing
import Bytes
import ProxyCore
import ProxyPolicy
import PushDelivery
import PushPlanning
import SIPGrammar
import Telemetry
import TestSupport
import Testing
import Timekeeping

/// Tests that calls from phones have timeline records (T33.5).
@Suite("Calls that phones make")
struct OutgoingCallTests {
    private static func bench() -> EngineBench {
        EngineBench { $0.upstream = NextHop("sip:10.0.0.2:5060") }
    }

    private static func records(_ actions: [ProxyAction]) -> [TimelineRecord] {
        actions.flatMap { action -> [TimelineRecord] in
            guard case .trace(let changes) = action else { return [] }
            return changes.compactMap { if case .record(let record) = $0 { record } else { nil } }
        }
    }

    private static func respond(_ bench: EngineBench, _ status: Status, to sent: SIPRequest) -> [ProxyAction] {
        bench.receive(
            SIPText.response(status, to: sent, tag: "x", contact: "sip:pbx@10.0.0.2"), from: EngineBench.pbx)
    }

    @Test func `its record has the caller, the callee and the source, and the times of ringing and answer`() throws {
        let bench = Self.bench()
        let sent = try #require(sentRequest(bench.receive(bench.inviteText())))
        let open = bench.engine.timeline.underWay { _ in true }
        #expect(open.map(\.kind) == [.outgoing] && open.allSatisfy { $0.isFor(ByteString("bob")) })
        _ = bench.pass(.milliseconds(300))
        #expect(Self.records(Self.respond(bench, 180, to: sent)).isEmpty)
        _ = bench.pass(.milliseconds(700))
        let record = try #require(Self.records(Self.respond(bench, 200, to: sent)).first)
        #expect(record.kind == .outgoing && record.device == .nobody && record.callID == ByteString("call1"))
        #expect(record.user == ByteString("103") && record.host == ByteString("example.net"))
        #expect(record.peer == ByteString("sip:bob@example.net"))
        #expect(record.source == ByteString("192.0.2.5:40000"))
        #expect(record.end == .answered && record.delivery == .none)
        #expect([record.steps.invited, record.steps.rang, record.steps.ended] == [0, 300, 1000])
        let figures = bench.engine.figures
        #expect(figures[.outgoingCall] == 1 && figures[.outgoingAnswered] == 1)
        #expect(figures[.upstreamAnswer].total == 1 && figures[.upstreamAnswer].sum == .milliseconds(300))
        #expect(figures[.call] == 0)
    }

    @Test(arguments: [
        (Status(486), TimelineRecord.End.refused, Counter.outgoingRefused, UInt16?(486)),
        (Status(503), .refused, .outgoingRefused, 503),
    ])
    func `a refusal`(status: Status, end: TimelineRecord.End, counter: Counter, told: UInt16?) throws {
        let bench = Self.bench()
        let sent = try #require(sentRequest(bench.receive(bench.inviteText())))
        let record = try #require(Self.records(Self.respond(bench, status, to: sent)).first)
        #expect(record.end == end && record.endStatus == told)
        #expect(bench.engine.figures[counter] == 1)
    }

    @Test func `no answer, no connection, and a caller who cancels`() throws {
        let silent = Self.bench()
        _ = silent.receive(silent.inviteText())
        #expect(Self.records(silent.pass(.seconds(33))).map(\.end) == [.noAnswer])
        #expect(silent.engine.figures[.outgoingUnanswered] == 1)

        let away = Self.bench()
        away.change { $0.upstreamCheck = UpstreamCheckSettings() }
        _ = away.pass(.seconds(4))
        _ = away.receive(away.inviteText())
        #expect(Self.records(away.pass(.seconds(5))).map(\.end) == [.unreachable])
        #expect(away.engine.figures[.outgoingUnreachable] == 1)

        let given = Self.bench()
        let sent = try #require(sentRequest(given.receive(given.inviteText())))
        _ = Self.respond(given, 180, to: sent)
        let cancel = SIPText.hopRequest("CANCEL", for: try #require(readRequest(given.inviteText())))
        let ended = given.receive(cancel) + Self.respond(given, 487, to: sent)
        #expect(Self.records(ended).map(\.end) == [.callerGaveUp])
        #expect(given.engine.figures[.outgoingGivenUp] == 1)
    }

    @Test func `a call that continues after a crash has one record, with its first time`() throws {
        let bench = RestartBench { $0.upstream = NextHop("sip:10.0.0.2:5060") }
        bench.register("103")
        bench.told(bench.bench.receive(bench.bench.inviteText()))
        let invite = bench.lastINVITE
        let began = bench.bench.now.date
        bench.crash()
        #expect(Self.records(bench.sent).isEmpty)
        bench.answer(invite, 200, from: EngineBench.pbx)
        let records = Self.records(bench.sent)
        #expect(records.map(\.end) == [.answered])
        #expect(records.first?.requestedAt == began)
        // If the daemon stops, its next run completes the timeline record of the call.
        let stopped = RestartBench { $0.upstream = NextHop("sip:10.0.0.2:5060") }
        stopped.register("103")
        stopped.told(stopped.bench.receive(stopped.bench.inviteText()))
        stopped.bench.engine.stopped(now: stopped.bench.now)
        #expect(Self.records(stopped.bench.take()).isEmpty)
    }
}
