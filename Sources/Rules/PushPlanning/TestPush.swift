import Addressing
import Bytes
package import PushDelivery
import Registration
package import Timekeeping

/// Identifies one order of test pushes.
package struct TestPushTicket: Hashable, Sendable {
    package let number: UInt64
    package init(_ number: UInt64) { self.number = number }
}

/// A test push until its end. It is a class, so that other pushes need no room for its record.
package final class TestPush {
    package let ticket: TestPushTicket
    /// The record of the timeline, once it is complete.
    package private(set) var record: TimelineRecord?

    package init(_ ticket: TestPushTicket) { self.ticket = ticket }

    /// The record of the timeline is complete.
    func ended(with record: TimelineRecord?) { self.record = record }
}

extension AskedPush {
    /// The complete record of a test push. Without a timeline it only has the outcome.
    package func testRecord(_ test: TestPush, _ outcome: PushOutcome, now: Moment) -> TimelineRecord {
        if let record = test.record { return record }
        var record = TimelineRecord(
            id: RecordID(rawValue: 0), kind: .notification, user: aor.user, host: aor.host, device: device,
            callRef: nil,
            callID: .empty, calls: 0, requestedAt: now.date, omission: nil, code: code)
        record.delivery = .finished
        record.tries = 1
        record.noteAnswer(outcome)
        return record
    }
}
