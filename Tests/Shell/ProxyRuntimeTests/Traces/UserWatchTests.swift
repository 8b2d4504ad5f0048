import Addressing
import HEP
import LoopTesting
import Reactor
import Testing
import Timekeeping

@testable import ProxyRuntime

@Suite("Watches of users", .timeLimit(.minutes(10)))
struct UserWatchTests {
    private let start = Instant(nanoseconds: 1_000_000_000_000)

    private func note(_ text: String, in watch: UserWatch, at now: Instant) throws {
        let bytes = Array(text.utf8)
        let read = SIPOutline(bytes.span)
        let message = TracedMessage(
            source: Endpoint(.loopbackV4, 5060), target: Endpoint(.loopbackV4, 5061), transport: .udp,
            isIncoming: true, time: 1)
        watch.note(bytes.span, try #require(read), message, now: now)
    }

    private func invite(to user: String, _ call: String, body: String = "") -> String {
        "INVITE sip:\(user)@example.net SIP/2.0\r\nCall-ID: \(call)\r\nAuthorization: Digest S3CR3T\r\n\r\n\(body)"
    }

    @Test func `a watch has the messages of its user and of the user's calls, once and without secrets`() throws {
        let watch = UserWatch(user: "bob@example.net", keepsText: true, until: start + .seconds(60), now: start)
        try note(invite(to: "alice", "c0"), in: watch, at: start)
        try note(invite(to: "bob", "c1"), in: watch, at: start)
        try note("SIP/2.0 180 Ringing\r\nCall-ID: c1\r\n\r\n", in: watch, at: start)
        let report = watch.look(now: start)
        #expect(report.events.map(\.callID) == ["c1", "c1"])
        #expect(report.events.first?.line == "INVITE sip:bob@example.net SIP/2.0")
        #expect(report.events.first?.text?.contains("S3CR3T") == false)
        #expect(report.events.first?.peer == "127.0.0.1:5060")
        #expect(!report.isOver)
        #expect(watch.look(now: start).events.isEmpty)
    }

    @Test func `a watch that nobody looks at keeps a bounded number of events`() throws {
        let watch = UserWatch(user: "bob", keepsText: true, until: start + .seconds(60), now: start)
        let text = invite(to: "bob", "c1", body: String(repeating: "a", count: 6000))
        for _ in 0..<100 { try note(text, in: watch, at: start) }
        let report = watch.look(now: start)
        #expect((10...21).contains(report.events.count))
        #expect(report.dropped == 100 - report.events.count)
    }

    @Test func `a watch ends with its time, or when nobody has looked for ten seconds`() throws {
        let watch = UserWatch(user: "bob", keepsText: false, until: start + .seconds(15), now: start)
        #expect(!watch.isForgotten(now: start + .seconds(9)))
        #expect(watch.isForgotten(now: start + .seconds(11)))
        _ = watch.look(now: start + .seconds(14))
        #expect(!watch.isForgotten(now: start + .seconds(15)))
        try note(invite(to: "bob", "c1"), in: watch, at: start + .seconds(15))
        let report = watch.look(now: start + .seconds(16))
        #expect(report.isOver && report.events.isEmpty)
    }

    @Test func `the number of watches is limited, and the shard hears when nobody looks any more`() async throws {
        try await withLoop { loop in
            await Bench(loop).run { _ in
                let taps = MessageTaps(listeners: [])
                var changes = 0
                taps.whenChanged = { changes += 1 }
                let now = SystemClock.now
                #expect(taps.isEmpty)
                let numbers = (0..<9).map { _ in taps.watch("bob", keepsText: false, for: .seconds(60), now: now) }
                #expect(numbers.compactMap(\.self).count == 8)
                #expect(!taps.isEmpty && changes == 8)
                for number in numbers.compactMap(\.self) {
                    #expect(taps.look(at: number, now: now + .seconds(61))?.isOver == true)
                    #expect(taps.look(at: number, now: now) == nil)
                }
                #expect(taps.isEmpty && changes == 16)
                // A message for a trace that nobody reads any more makes the shard end the trace.
                let message = Array("INVITE sip:bob@h SIP/2.0\r\n\r\n".utf8)
                let flow = Flow(transport: .udp, listener: 0, connection: 0, remote: Endpoint(.loopbackV4, 9))
                taps.message(message.span, isIncoming: true, on: flow)
                #expect(changes == 17)
            }
        }
    }
}
