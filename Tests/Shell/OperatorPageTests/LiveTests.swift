import Addressing
import Bytes
import PushDelivery
import TestSupport
import Testing
import Timekeeping

@testable import Control
@testable import OperatorPage

@Suite("Live view")
struct LiveTests {
    private func record(_ end: TimelineRecord.End?, call: UInt64 = 9, device: DeviceID = 71) -> TimelineRecord {
        var record = TimelineRecord(
            id: RecordID(rawValue: 1), kind: .call, user: ByteString("bob"), host: ByteString("example.net"),
            device: device, callRef: CallRef(rawValue: call), callID: ByteString("c\(call)"),
            requestedAt: UnixTime(milliseconds: 1000), omission: nil, app: "apns")
        record.end = end
        record.steps.ended = 500
        return record
    }

    @Test func `an ended call appears once, with its answer`() {
        var ended = EndedCalls()
        ended.note(record(nil))
        ended.note(record(.answeredElsewhere))
        ended.note(record(.answered, device: 72))
        ended.note(record(.timeOver, device: 73))
        ended.note(record(.timeOver, call: 10))
        let calls = ended.take()
        #expect(calls.map(\.end) == ["answered", "time-over"])
        #expect(calls.first?.user == "bob@example.net" && calls.first?.callID == "c9" && calls.first?.at == 1500)
        #expect(ended.take().isEmpty)
        for call in 1...1000 { ended.note(record(.answered, call: UInt64(call))) }
        #expect(ended.take().count == EndedCalls.limit)
    }

    @Test func `an event is one line, whatever a caller is called`() throws {
        let call = LiveSnapshot.EndedCall(
            user: "<img onerror=x>\r\n\u{202e}\u{2028}\nevent: bye", callID: "a\nb", end: "answered", at: 1)
        let text = String(decoding: try #require(LiveEvent.bytes("now", call)), as: UTF8.self)
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        #expect(lines.count == 4 && lines[0] == "event: now" && lines[1].hasPrefix("data: {"))
        #expect(!text.contains("\r"))
    }

    private func provider(_ change: (inout ProviderReport) -> Void) -> LiveSnapshot.ProviderState {
        var app = PushAppFigures(
            name: "apns", isReachable: true, accepted: 3, failed: 0, deadTokens: 0, credentialsRefused: 0,
            foreignTokens: 0, queued: 0, inFlight: 0)
        app.credentials.state = CredentialReport.State.works.rawValue
        var report = ProviderReport(name: "apns", isEnabled: true, apps: [app])
        change(&report)
        return LiveSnapshot.ProviderState(report)
    }

    @Test func `a provider says how it is, and what to do`() {
        let fine = provider { _ in }
        #expect(fine.state == "ok" && fine.says == "apns accepts pushes." && fine.advice.isEmpty)
        let off = provider { $0.isEnabled = false }
        #expect(off.state == "disabled" && off.advice == "sippushd provider enable apns")
        let paused = provider { $0.isPaused = true }
        #expect(paused.state == "paused" && paused.advice == "sippushd provider resume apns")
        // The last push failed, but the breaker of the provider is closed.
        let away = provider { $0.apps[0].problem = "no route to host" }
        #expect(away.state == "failing" && away.says == "apns cannot be reached: no route to host.")
        let broken = provider { $0.apps[0].isReachable = false }
        #expect(broken.state == "failing" && broken.says == "apns cannot be reached: it does not answer.")
        let untaken = provider {
            $0.apps[0].credentials.state = CredentialReport.State.failed.rawValue
            $0.apps[0].credentials.reason = "status 503"
            $0.apps[0].credentials.cure = "Wait."
        }
        #expect(untaken.says == "apns cannot be reached: status 503." && untaken.advice == "Wait.")
        let refused = provider { $0.apps[0].refusal = "InvalidProviderToken" }
        #expect(refused.state == "failing" && refused.says.contains("InvalidProviderToken"))
        #expect(!refused.advice.isEmpty)
    }
}
