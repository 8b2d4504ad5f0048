package import Addressing
import Collections
package import Timekeeping

/// The record of each phone after former pushes: how long it took to come back, and how often it did not come.
///
/// The times bound how long later calls wait for the phone. Nothing here outlives the process.
package struct WakeRecords {
    /// How long a call waits for a phone.
    package enum Bound: Equatable {
        /// As long as the settings say.
        case none
        /// No longer than this after the call came, by the phone's own record.
        case after(Duration)
        /// Not at all: its last pushes woke nobody.
        case notWaited
    }

    fileprivate struct Record {
        /// When the last call arrived for which the phone was pushed; `nil` after the phone has returned.
        var calledAt: Instant?
        /// Whether a provider has accepted a push for that call.
        var isPushed = false
        /// How long the last wakes took, in tenths of a second. The next wake replaces the oldest one, at `next`.
        var times: [UInt16] = []
        var next: UInt8 = 0
        /// How many accepted pushes in a row woke nobody, and when the last of them counted.
        var misses: UInt8 = 0
        var missedAt: Instant?
    }

    private var records: [DeviceID: Record] = [:]
    /// The devices in the order of their first calls. Some have no record any more.
    private var ages = Queue<DeviceID>()
    private let capacity: Int

    /// The number of wakes that are kept for a phone. The second slowest wake of a hundred is the 99th percentile.
    package static let kept = 100
    /// The least number of wakes from which the wait is bounded.
    static let fewest = 10
    /// The least time that a call waits for a phone.
    package static let shortest: Duration = .seconds(5)
    /// After this many accepted pushes without a wake, calls do not wait for the phone.
    static let mostMisses: UInt8 = 10
    /// Calls within this time count as one miss.
    static let missPause: Duration = .seconds(60)
    /// A phone that returns later than this was not woken by the push.
    static let longestWake: Duration = .seconds(180)

    package init(capacity: Int = 100_000) { self.capacity = capacity }

    package var isEmpty: Bool { records.isEmpty }

    // MARK: What happened

    /// A call waits for the phone.
    package mutating func called(_ device: DeviceID, now: Instant) {
        if records[device] == nil { make(device) }
        guard var record = records[device] else { return }
        if let before = record.calledAt, now - before <= Self.longestWake { return }
        record.calledAt = now
        record.isPushed = false
        records[device] = record
    }

    /// A provider has accepted a push to it.
    package mutating func pushed(_ device: DeviceID) {
        if records[device]?.calledAt != nil { records[device]?.isPushed = true }
    }

    /// The phone has registered, or shown life.
    package mutating func returned(_ device: DeviceID, now: Instant) {
        // Most daemons keep no records, and this is asked for each REGISTER.
        guard !records.isEmpty, var record = records[device] else { return }
        if let calledAt = record.calledAt, record.isPushed, now - calledAt <= Self.longestWake {
            record.add((now - calledAt).tenths)
        }
        record.calledAt = nil
        record.isPushed = false
        record.misses = 0
        record.missedAt = nil
        records[device] = record
    }

    /// A call has stopped waiting for the phone. A wait of less than ``shortest``, as a caller's Expires can make it, is no
    /// miss.
    package mutating func missed(_ device: DeviceID, now: Instant) {
        guard !records.isEmpty, var record = records[device], record.isPushed, let calledAt = record.calledAt,
            now - calledAt >= Self.shortest
        else { return }
        if let before = record.missedAt, now - before < Self.missPause { return }
        record.misses = min(record.misses + 1, Self.mostMisses)
        record.missedAt = now
        records[device] = record
    }

    /// The device was removed, or has another token.
    package mutating func forget(_ device: DeviceID) { records[device] = nil }

    package mutating func forgetAll() { self = WakeRecords(capacity: capacity) }

    // MARK: What it means

    package func bound(of device: DeviceID) -> Bound {
        guard let record = records[device] else { return .none }
        if record.misses >= Self.mostMisses { return .notWaited }
        guard record.times.count >= Self.fewest else { return .none }
        let sorted = record.times.sorted()
        let place = (sorted.count * 99 + 99) / 100 - 1
        return .after(max(.milliseconds(Int64(sorted[place]) * 100), Self.shortest))
    }

    private mutating func make(_ device: DeviceID) {
        while records.count >= capacity, let oldest = ages.popFirst() { records[oldest] = nil }
        records[device] = Record()
        ages.append(device)
        // Devices that were forgotten and came again are in the queue twice.
        if ages.count > 2 * capacity {
            var seen = Set<DeviceID>()
            let living = ages.elements.reversed().filter { records[$0] != nil && seen.insert($0).inserted }
            ages = Queue()
            for device in living.reversed() { ages.append(device) }
        }
    }
}

extension WakeRecords.Record {
    fileprivate mutating func add(_ time: UInt16) {
        if times.count < WakeRecords.kept {
            times.append(time)
        } else {
            times[Int(next)] = time
            next = UInt8((Int(next) + 1) % WakeRecords.kept)
        }
    }
}

extension Duration {
    /// In tenths of a second, rounded up.
    fileprivate var tenths: UInt16 { UInt16(clamping: (max(0, nanoseconds) + 99_999_999) / 100_000_000) }
}
