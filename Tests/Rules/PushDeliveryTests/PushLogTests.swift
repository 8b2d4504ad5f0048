import Telemetry
import Testing
import TestSupport
import Timekeeping

@testable import PushDelivery

@Suite("Log lines about pushes")
struct PushLogTests {
    private let sink = MemoryLogSink()
    private let now = Instant(nanoseconds: 1_000_000_000)

    private func server() throws -> PushServer {
        let directory = PushDirectory(.sample)
        return PushServers(directory, plainLimit: 1).server(of: try #require(directory.apps.first).id)
    }

    private func finished(_ outcome: PushOutcome, times: Int, at instants: [Instant]) throws -> [String] {
        var log = PushLog(Log(level: .debug, sink: sink, clock: { UnixTime(seconds: 0) }))
        let server = try server()
        for instant in instants {
            for _ in 0..<times {
                log.finished(
                    outcome, of: server, token: token(.fcm, "secret-token-of-a-phone"), tries: 1, now: instant,
                    payload: "{}")
            }
        }
        return sink.lines
    }

    @Test(
        arguments: [
            (PushOutcome.accepted(nil), "info"), (.tokenDead(since: nil), "info"), (.noSuitableToken, "info"),
            (.credentialsRefused("x"), "error"), (.foreignToken("x"), "warning"), (.noConnection("x"), "error"),
            (.payloadRefused("x"), "error"),
        ] as [(PushOutcome, String)])
    func `each outcome has a line of its level, without the token`(outcome: PushOutcome, level: String) throws {
        let lines = try finished(outcome, times: 1, at: [now])
        #expect(lines.count == 1 && lines[0].contains(level) && !lines[0].contains("secret-token-of-a-phone"))
    }

    @Test func `a provider that fails for each push does not fill the log`() throws {
        let lines = try finished(.credentialsRefused("x"), times: 1000, at: [now, now + .seconds(3600)])
        #expect(lines.count < 50)
        // The first log line after the pause has the number of suppressed lines.
        #expect(lines.contains { $0.contains("suppressed=") && !$0.contains("suppressed=0") })
    }

    @Test func `pushes that are accepted all have their line`() throws {
        #expect(try finished(.accepted(nil), times: 100, at: [now]).count == 100)
    }
}
