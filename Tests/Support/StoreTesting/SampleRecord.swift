package import Addressing
import Bytes
package import PushDelivery
import TestSupport
package import Timekeeping

extension PushCode {
    /// Makes a push code from a number.
    package static func sample(_ number: UInt64) -> PushCode { PushCode(high: number, low: number) }
}

extension TimelineRecord {
    /// Makes the timeline record of an accepted push, for a call that nobody answered.
    package static func sample(
        _ number: UInt64, device: DeviceID = 71, kind: Kind = .call, app: String = "fcm", at date: UnixTime,
        _ change: (inout TimelineRecord) -> Void = { _ in }
    ) -> TimelineRecord {
        var record = TimelineRecord(
            id: .init(rawValue: 0), kind: kind, user: ByteString("bob"), host: ByteString("example.net"),
            device: device, callRef: CallRef(rawValue: number), callID: ByteString("c\(number)"), requestedAt: date,
            omission: nil, code: .sample(number), app: app)
        record.delivery = .finished
        record.answer = .accepted
        record.tries = 1
        record.end = .timeOver
        change(&record)
        return record
    }
}
