import Addressing
import Telemetry
import Testing
import TestSupport
import Timekeeping

@testable import ProxyCore

@Suite("Push tokens that others can read")
struct UnprotectedTokensTests {
    private static let internet = Endpoint(IPAddress(v4: 0x5db8_d822), 40_000)

    private func flow(_ transport: Transport, from remote: Endpoint = internet) -> Flow {
        Flow(transport: transport, listener: 0, connection: 0, remote: remote)
    }

    @Test func `the first one from the internet without TLS is reported, once`() {
        var tokens = UnprotectedTokens()
        var told: [Bool] = []
        for transport in [Transport.tls, .wss] {
            told.append(tokens.contactAccepted(on: flow(transport), isTrusted: false))
        }
        told.append(tokens.contactAccepted(on: flow(.udp), isTrusted: true))
        for address in ["10.0.0.7", "192.168.1.2", "127.0.0.1", "fd00::1", "fe80::1"].compactMap({ IPAddress($0) }) {
            told.append(tokens.contactAccepted(on: flow(.tcp, from: Endpoint(address, 40_000)), isTrusted: false))
        }
        #expect(told == Array(repeating: false, count: 8))
        told = [Transport.ws, .udp].map { tokens.contactAccepted(on: flow($0), isTrusted: false) }
        #expect(told == [true, false])
    }

    @Test func `the log has one line for a run, with the cure, for push contacts alone`() {
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
