import Addressing
import Bytes
import Calling
import ProxyCore
import ProxyPolicy
import PushDelivery
import Registration
import SIPGrammar
import ServiceEvents
import TestSupport
import Testing
import Timekeeping

extension [ProxyAction] {
    fileprivate var events: [ServiceEvent] {
        compactMap { if case .tell(let event) = $0 { event } else { nil } }
    }

    fileprivate var words: [String] { events.map(\.words) }
}

extension ServiceEvent {
    fileprivate var words: String {
        switch self {
        case .callHeld(let call, let wait): "held \(call.callID) \(wait.devices.count)\(wait.isAgain ? " again" : "")"
        case .callWoken(let call, _, let after): "woken \(call.callID) \(after.components.seconds)"
        case .callEnded(let report, let caller): "ended \(report.callID) \(report.code.end) \(caller?.string ?? "-")"
        case .deviceRegistered(_, let aor, let isPush, _): "registered \(aor) \(isPush)"
        case .deviceRemoved(_, _, let removal, _): "removed \(removal)"
        case .push(let change, _): "\(change)"
        }
    }
}

@Suite("Events for the operator's receiver")
struct ServiceEventTests {
    private static func bench(_ change: (inout ProxySettings) -> Void = { _ in }) -> EngineBench {
        let bench = EngineBench(change)
        bench.engine.reportsEvents(true)
        return bench
    }

    @Test func `a call that wakes a phone has three events, in their order`() throws {
        let bench = Self.bench()
        bench.register()
        let call = bench.invite()
        #expect(call.words == ["held call1 1"])
        bench.finish(try #require(call.pushIDs.first), .accepted(nil))
        bench.take()
        _ = bench.pass(.seconds(2))
        let released = bench.register(cseq: 2)
        #expect(released.words == ["woken call1 2"])
        let request = try #require(released.invites.last)
        let answered = bench.receive(SIPText.response(200, to: request, tag: "p", contact: "sip:bob@192.0.2.5"))
        #expect(answered.words == ["ended call1 answered 103"])
    }

    @Test func `the event of a held call is ordered with the 100, and so before it is sent`() {
        let bench = Self.bench()
        bench.register()
        let actions = bench.invite()
        #expect(actions.contains { if case .tell = $0 { true } else { false } })
        #expect(actions.contains { if case .send = $0 { true } else { false } })
    }

    @Test func `a call for which no phone comes ends as missed`() {
        let bench = Self.bench()
        bench.register()
        _ = bench.invite()
        #expect(bench.pass(.seconds(31)).words == ["ended call1 timeOver 103"])
    }

    @Test func `the caller has the form that the settings give it in lists of missed calls`() {
        let bench = Self.bench { $0.call.callerIDFormat = .uri }
        bench.register()
        _ = bench.invite()
        #expect(bench.pass(.seconds(31)).words == ["ended call1 timeOver sip:103@example.net"])
    }

    @Test func `nothing is reported while nobody wants events`() {
        let bench = EngineBench()
        #expect(bench.register().events.isEmpty)
        #expect(bench.invite().events.isEmpty)
        #expect(bench.pass(.seconds(31)).events.isEmpty)
        bench.engine.reportsEvents(true)
        bench.engine.reportsEvents(false)
        #expect(bench.invite(callID: "call2").events.isEmpty)
    }

    @Test func `a device is registered once, and removed with the reason`() throws {
        let bench = Self.bench()
        #expect(bench.register().words == ["registered bob@example.net true"])
        #expect(bench.register(cseq: 2).words.isEmpty)
        #expect(bench.register(cseq: 3, expires: 0).words == ["removed signedOut"])
    }

    @Test func `a dead token removes its device`() throws {
        let bench = Self.bench()
        bench.register()
        let id = try #require(bench.invite().pushIDs.first)
        bench.finish(id, .tokenDead(since: nil))
        #expect(bench.take().words.contains("removed tokenDead"))
    }
}
