import Addressing
@testable import LocationService
import Telemetry
import TestSupport
import Testing
import Timekeeping

@testable import ProxyCore

@Suite("The log line about push tokens that others can read")
struct UnprotectedTokenLineTests {
    private static let internet = Endpoint(IPAddress(v4: 0x5db8_d822), 40_000)

    @Test func `the first unprotected push contact of a run causes one log line with the cure`() {
        let sink = MemoryLogSink()
        let bench = EngineBench(log: Log(level: .notice, format: .text, sink: sink) { UnixTime(seconds: 0) })
        func lines() -> Int { sink.lines.count { $0.contains("without TLS") && $0.contains("tls:") } }
        bench.register(user: "alice", token: nil, callID: "r0", from: Self.internet)
        bench.register(token: "tok0", callID: "r1")
        #expect(lines() == 0)
        bench.register(token: "tok1", callID: "r2", from: Self.internet)
        #expect(lines() == 1)
        bench.register(token: "tok1", callID: "r2", cseq: 2, from: Self.internet)
        bench.register(user: "alice", token: "tok2", callID: "r3", from: Self.internet)
        #expect(lines() == 1)
    }

    @Test func `a refresh is reported as well`() {
        let sink = MemoryLogSink()
        let bench = EngineBench(log: Log(level: .notice, format: .text, sink: sink) { UnixTime(seconds: 0) })
        bench.register(from: Self.internet)
        bench.engine.registrar.unprotectedTokens = UnprotectedTokens()
        bench.register(cseq: 2, from: Self.internet)
        #expect(sink.lines.count { $0.contains("without TLS") } == 2)
    }
}
