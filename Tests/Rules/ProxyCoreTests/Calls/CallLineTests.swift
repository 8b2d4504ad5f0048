import Addressing
import Bytes
import Calling
import ProxyCore
import ProxyPolicy
import PushDelivery
import Registration
import SIPGrammar
import ServiceEvents
import Telemetry
import TestSupport
import Testing
import Timekeeping

/// A bench that collects the log lines about how calls end.
final class CallLineBench {
    let bench: EngineBench
    private let sink = LineSink()

    init(level: LogLevel = .info, _ change: (inout ProxySettings) -> Void = { _ in }) {
        bench = EngineBench(log: Log(level: level, sink: sink) { UnixTime(milliseconds: 0) }, change)
    }

    /// Returns the level, message, code and status of each new log line about the end of a call.
    func takeEnds() -> [String] {
        sink.take().compactMap { line in
            guard line.contains(" call ended ") || line.contains(" call refused ") else { return nil }
            let words = line.split(separator: " ").map(String.init)
            let code = words.first { $0.hasPrefix("code=") }?.dropFirst(5) ?? "none"
            let status = words.first { $0.hasPrefix("status=") }?.dropFirst(7) ?? "none"
            return "\(words[1]) \(words[3]) \(code) \(status)"
        }
    }

    func takeLines() -> [String] { sink.take() }

    /// Lets the phone answer the latest INVITE that the actions contain.
    func answer(_ status: Status, _ actions: [ProxyAction]) {
        guard let request = sentRequest(actions) else { return }
        bench.receive(SIPText.response(status, to: request, tag: "p", contact: "sip:bob@192.0.2.5"))
    }

    /// Makes a call while bob's phone sleeps, so that the phone gets a push.
    func pushed(_ outcome: PushOutcome? = .accepted(nil)) {
        bench.register()
        let id = bench.invite().pushIDs.first
        if let id, let outcome { bench.finish(id, outcome) }
        bench.take()
    }
}

@Suite("Each call has one line at its end")
struct CallLineTests {
    @Test func `a phone wakes, rings and answers`() throws {
        let line = CallLineBench()
        line.pushed()
        _ = line.bench.pass(.seconds(2))
        let released = line.bench.register(cseq: 2)
        line.answer(180, released)
        #expect(line.takeEnds().isEmpty)
        _ = line.bench.pass(.seconds(1))
        line.answer(200, released)
        let text = try #require(line.takeLines().first { $0.contains("call ended") })
        #expect(text.contains(" info call ended aor=bob@example.net caller=sip:103@example.net"), "\(text)")
        #expect(text.contains("source=10.0.0.2:5060 call-id=call1 code=HARA status=200 reason=answered device="))
        #expect(text.contains(" count=1 duration=3000.000ms "))
        // A repeated 2xx of the phone causes no second log line.
        line.answer(200, released)
        #expect(line.takeEnds().isEmpty)
    }

    @Test func `the letters tell the ends apart`() {
        func ends(_ body: (CallLineBench) -> Void, _ change: (inout ProxySettings) -> Void = { _ in }) -> [String] {
            let line = CallLineBench(change)
            body(line)
            return line.takeEnds()
        }
        let nobody = ends {
            $0.pushed()
            _ = $0.bench.pass(.seconds(31))
        }
        #expect(nobody == ["notice ended HANT 480"])
        let unanswered = ends {
            $0.pushed(nil)
            _ = $0.bench.pass(.seconds(31))
        }
        #expect(unanswered == ["notice ended HSNT 480"])
        #expect(ends { $0.pushed(.retry(after: nil)) } == ["notice ended HFNP 480"])
        #expect(ends { $0.pushed(.tokenDead(since: nil)) } == ["info ended HFNG 480"])
        let busy = ends {
            $0.pushed()
            $0.answer(486, $0.bench.register(cseq: 2))
        }
        #expect(busy == ["info ended HARR 486"])
        let gaveUp = ends {
            $0.pushed()
            $0.bench.cancel()
        }
        #expect(gaveUp == ["info ended HANC 487"])
        let elsewhere = ends {
            $0.pushed()
            $0.bench.cancel(["Reason: SIP;cause=200;text=\"Call completed elsewhere\""])
        }
        #expect(elsewhere == ["info ended HANE 487"])
        let operatorEnds = ends {
            $0.pushed()
            if let id = $0.bench.engine.heldCalls.first?.id {
                _ = $0.bench.engine.callEndedByOperator(id, with: 603, now: $0.bench.now)
            }
        }
        #expect(operatorEnds == ["info ended HANO 603"])
        let ordinary = ends {
            $0.bench.register(token: nil)
            $0.answer(200, $0.bench.invite())
        }
        #expect(ordinary == ["info ended N--A 200"])
        let life = ends {
            $0.pushed()
            $0.bench.engine.flowAlive(EngineBench.udp(EngineBench.phone), now: $0.bench.now)
            $0.answer(200, $0.bench.take())
        }
        #expect(life == ["info ended HAKA 200"])
        let limited = ends({
            $0.pushed()
            _ = $0.bench.pass(.seconds(31))
        }) {
            $0.call.pushesPerDevice = 1
            $0.limits.callerShare = 1
        }
        #expect(limited.first?.hasPrefix("notice ended H") == true)
    }

    @Test func `calls of phones have one, and refused calls with their reason`() throws {
        let line = CallLineBench { $0.upstream = NextHop("sip:10.0.0.2:5060") }
        func outgoing(_ status: Status?, callID: String) -> [String] {
            let sent = line.bench.receive(line.bench.inviteText(callID: callID, branch: callID))
            if let status, let request = sentRequest(sent) {
                line.bench.receive(
                    SIPText.response(status, to: request, tag: "x", contact: "sip:pbx@10.0.0.2"), from: EngineBench.pbx)
            } else {
                _ = line.bench.pass(.seconds(33))
            }
            return line.takeEnds()
        }
        #expect(outgoing(200, callID: "o1") == ["info ended O--A 200"])
        #expect(outgoing(486, callID: "o2") == ["info ended O--R 486"])
        #expect(outgoing(nil, callID: "o3") == ["notice ended O--N 408"])
        line.bench.invite(to: "nobody", callID: "r1", branch: "r1")
        let refused = try #require(line.takeLines().first { $0.contains("call refused") })
        #expect(refused.contains("notice call refused aor=nobody@example.net"), "\(refused)")
        #expect(refused.contains("code=---D status=404 reason=\"no such user\""), "\(refused)")
    }

    @Test(arguments: [
        ("Max-Forwards: 70", "Max-Forwards: 0", "483"), ("Max-Forwards: 70", "Max-Breadth: x", "400"),
        ("Max-Forwards: 70", "Proxy-Require: foo", "420"), ("Max-Forwards: 70", "Max-Breadth: 0", "440"),
    ])
    func `an INVITE that cannot go on by its form has one as well`(old: String, new: String, status: String) {
        let line = CallLineBench()
        line.bench.register()
        _ = line.takeEnds()
        line.bench.receive(line.bench.inviteText().replacing(old, with: new), from: EngineBench.pbx)
        #expect(line.takeEnds() == ["notice refused ---D \(status)"])
        #expect(line.bench.actions.records.count == 1)
    }

    @Test func `a flood of refused INVITEs leaves few lines`() {
        let line = CallLineBench()
        for number in 0..<1000 { line.bench.invite(to: "nobody\(number)", callID: "c\(number)", branch: "b\(number)") }
        #expect(line.takeEnds().count == 10)
    }

    @Test func `a phone that is called without end and never wakes leaves few lines at the default level`() {
        let line = CallLineBench(level: .notice)
        line.bench.register()
        for number in 0..<15 { line.bench.invite(callID: "c\(number)", branch: "b\(number)") }
        _ = line.bench.pass(.seconds(31))
        let lines = line.takeLines().filter { $0.contains("call ended") }
        #expect(lines.count == 6)
        #expect(line.bench.engine.figures[.heldTimedOut] == 15)
    }

    @Test func `the setting moves the lines between the levels`() {
        for (logging, good, bad) in [
            (CallLogging.failed, "info", "notice"), (.all, "notice", "notice"), (.none, "info", "info"),
        ] {
            let line = CallLineBench { $0.callLogging = logging }
            line.pushed()
            line.answer(200, line.bench.register(cseq: 2))
            line.bench.invite(callID: "call2", branch: "i2")
            _ = line.bench.pass(.seconds(31))
            #expect(line.takeEnds().map { String($0.prefix { $0 != " " }) } == [good, bad])
        }
        let silent = CallLineBench(level: .notice)
        silent.pushed()
        silent.answer(200, silent.bench.register(cseq: 2))
        #expect(silent.takeEnds().isEmpty)
    }

    // MARK: Reports for traces

    @Test func `the end of a call is reported once, with its exact times, and only on request`() throws {
        for isOn in [true, false] {
            let bench = EngineBench()
            bench.engine.reportsEnds(isOn)
            bench.register()
            let received = bench.now.instant
            let id = try #require(bench.invite().pushIDs.first)
            bench.finish(id, .accepted(nil))
            _ = bench.pass(.microseconds(2_000_042))
            let request = try #require(bench.register(cseq: 2).invites.last)
            _ = bench.pass(.seconds(1))
            let response = SIPText.response(200, to: request, tag: "p", contact: "sip:bob@192.0.2.5")
            let reports = bench.receive(response).endedCalls
            #expect(reports.count == (isOn ? 1 : 0))
            guard let report = reports.first else { continue }
            #expect(report.began == received && report.ended == received + .microseconds(3_000_042))
            #expect("\(report.code)" == "HARA" && report.status == 200 && report.count == 1)
            #expect(report.callID == ByteString("call1") && report.aor.user == ByteString("bob"))
            #expect(report.device != nil)
            #expect(bench.receive(response).endedCalls.isEmpty)
        }
    }

    @Test func `a user without a contact, and a phone that does not come, are reported`() {
        let bench = EngineBench()
        bench.engine.reportsEnds(true)
        bench.register()
        _ = bench.invite()
        let reports = bench.pass(.seconds(31)).endedCalls
        #expect(reports.map { "\($0.code) \($0.status)" } == ["HSNT 480"])
        #expect(reports.first?.device == nil && reports.first?.code.isFailure == true)
    }
}

extension [ProxyAction] {
    /// The ends of calls that the engine reports.
    fileprivate var endedCalls: [EndedCallReport] {
        compactMap { if case .callEnded(let report) = $0 { report } else { nil } }
    }
}
