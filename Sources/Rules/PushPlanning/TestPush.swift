import Addressing
import Bytes
package import PushDelivery
import Registration
package import Timekeeping

/// Identifies one operator's order to send test pushes.
package struct TestPushTicket: Hashable, Sendable {
    package let number: UInt64
    package init(_ number: UInt64) { self.number = number }
}

/// A test push, from its order to its end.
///
/// ``TestPush`` is a class, so that a push that is no test has only a reference, and no room for a record.
package final class TestPush {
    package let ticket: TestPushTicket
    /// The complete timeline record of the test push; `nil` until the push has ended.
    package private(set) var record: TimelineRecord?

    package init(_ ticket: TestPushTicket) { self.ticket = ticket }

    /// Stores the complete timeline record of the test push.
    func ended(with record: TimelineRecord?) { self.record = record }
}

extension AskedPush {
    /// The complete record of a test push; without a timeline, the record contains only the result of the push.
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
