import ProxyRuntime
import Testing

@testable import Control
@testable import sippushd

@Suite("Lines of trace and top")
struct TraceCommandTests {
    private func event(_ transport: String, isIncoming: Bool, text: String? = nil) -> TraceEvent {
        TraceEvent(
            time: 1_764_000_000_123_456, peer: transport == "push" ? "" : "192.0.2.1:5060", transport: transport,
            isIncoming: isIncoming, line: "INVITE sip:bob@example.net SIP/2.0", callID: "c1", text: text)
    }

    @Test func `messages point to the daemon or away from it, and pushes have their own sign`() {
        #expect(
            TraceText.lines(of: event("udp", isIncoming: true)) == [
                "16:00:00.123  192.0.2.1:5060 udp           -->  INVITE sip:bob@example.net SIP/2.0  [c1]"
            ])
        #expect(TraceText.lines(of: event("tls", isIncoming: false))[0].contains("192.0.2.1:5060 tls           <--  "))
        #expect(TraceText.lines(of: event("push", isIncoming: false))[0].contains("push                         ===  "))
    }

    @Test func `the whole message follows its first line`() {
        let lines = TraceText.lines(of: event("udp", isIncoming: true, text: "INVITE x\r\nCall-ID: c1\r\n\r\nv=0\r\n"))
        #expect(Array(lines.dropFirst()) == ["    Call-ID: c1", "    ", "    v=0", "    "])
    }

    @Test(arguments: [(Int64(-5), "00:00:00.000"), (0, "00:00:00.000"), (.max, "04:00:54.775")])
    func `odd times make no trouble`(time: Int64, text: String) { #expect(TraceText.clock(time) == text) }

    @Test func `top shows rates between two looks`() {
        let samples = TopText.samples(
            of: "# HELP x\nsippushd_sip_requests_total{method=\"INVITE\"} 100\nsippushd_connections 7\nbad\n")
        #expect(samples == ["sippushd_sip_requests_total{method=\"INVITE\"}": 100, "sippushd_connections": 7])
        var later = samples
        later["sippushd_sip_requests_total{method=\"INVITE\"}"] = 125
        later["sippushd_pushes_ended_total{provider=\"fcm\",app=\"a\",outcome=\"accepted\"}"] = 5
        let slow = SlowPush(provider: "fcm", device: "kfe4x", milliseconds: 1234, status: 200)
        let lines = TopText.lines(
            TopText.Look(samples: later, held: [], slowest: [slow], time: 12),
            since: TopText.Look(samples: samples, held: [], slowest: [], time: 10))
        #expect(lines[0].contains("INVITE 12.5"))
        #expect(lines[2].contains("accepted 2.5"))
        #expect(lines.contains("connections  7"))
        #expect(lines.contains { $0.contains("1234 ms") && $0.contains("kfe4x") })
    }
}
