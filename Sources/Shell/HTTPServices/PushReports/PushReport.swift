import Addressing
import Bytes
import PushDelivery
import Timekeeping

/// The outcome of one push, for application servers. The report names devices by their codes, and contains neither
/// tokens nor addresses.
struct PushReport: Codable, Sendable, DescribedBody {
    static let notes: [String: JSONSchema] = ["push": .guid]

    struct Device: Codable, Sendable {
        /// The code by which the device's app names the device.
        let device: String
        let app: String
        let sent: Bool
        let accepted: Bool
        let failed: Bool
        let received: Bool
        let followed: Bool
        let read: Bool
        // The times at which the app reported each step, in Unix seconds; `nil` if the app sent no report.
        let receivedAt: Int64?
        let followedAt: Int64?
        let readAt: Int64?
    }

    let push: String
    let kind: String
    /// The time at which the push was requested, in Unix seconds.
    let date: Int64
    let devices: [Device]

    /// Creates the report of one push from its records, one for each device; `nil` if the push has no record.
    init?(_ records: [TimelineRecord], deviceCode: (DeviceID) -> String) {
        guard let first = records.first, let code = first.code else { return nil }
        push = code.description
        kind = first.kind.rawValue
        date = first.requestedAt.seconds
        devices = records.map { Device($0, deviceCode($0.device)) }
    }
}

extension PushReport.Device {
    /// Creates the report about one device from its record, by the rules of the store's statistics.
    init(_ record: TimelineRecord, _ code: String) {
        device = code
        app = record.app
        let wasSent = record.tries > 0
        sent = wasSent
        accepted = record.wasAccepted
        failed = record.delivery == .finished && !record.wasAccepted
        received = record.marks.received != nil || (wasSent && record.steps.registered != nil)
        followed = record.marks.followed != nil || (wasSent && record.end == .answered)
        read = record.marks.read != nil
        receivedAt = record.marks.received?.seconds
        followedAt = record.marks.followed?.seconds
        readAt = record.marks.read?.seconds
    }
}
