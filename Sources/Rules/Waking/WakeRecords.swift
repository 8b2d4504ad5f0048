package import Addressing
import Collections
package import Timekeeping

/// Records how long each phone took to register after earlier pushes, and how often the phone did not register.
///
/// The wake records limit how long a call waits for a phone, and are lost when the process ends.
package struct WakeRecords {
    /// How long a call may wait for a phone, according to the phone's earlier wakes.
    package enum Bound: Equatable {
        /// The call waits as long as the settings say.
        case none
        /// The call waits at most the given time after its arrival, because earlier wakes of the phone took no longer.
        case after(Duration)
        /// The call does not wait for the phone, because the last pushes did not wake the phone.
        case notWaited
    }

    fileprivate struct Record {
        /// The instant at which the last call that sent a push to the phone arrived; `nil` after the phone has
        /// registered.
        var calledAt: Instant?
        /// Whether a provider has accepted a push for the call of ``calledAt``.
        var isPushed = false
        /// The durations of the last wakes in tenths of a second; the next duration replaces the oldest, at the index
        /// `next`.
        var times: [UInt16] = []
        var next: UInt8 = 0
        /// The number of consecutive accepted pushes that did not wake the phone, and the time of the last such push.
        var misses: UInt8 = 0
        var missedAt: Instant?
    }

    private var records: [DeviceID: Record] = [:]
    /// The devices in the order of their first calls, including devices without a record.
    private var ages = Queue<DeviceID>()
    private let capacity: Int

    /// The number of recorded wakes of each phone; with 100 wakes, the second slowest wake is the 99th percentile.
    package static let kept = 100
    /// The minimum number of recorded wakes that a phone needs before its record limits the wait.
    static let fewest = 10
    /// The shortest time that a call waits for a phone.
    package static let shortest: Duration = .seconds(5)
    /// After this number of accepted pushes without a wake, calls no longer wait for the phone.
    static let mostMisses: UInt8 = 10
    /// The time within which several calls without a wake of the phone are treated as one miss.
    static let missPause: Duration = .seconds(60)
    /// The longest time from a call's arrival to a REGISTER that is still treated as a wake by the push.
    static let longestWake: Duration = .seconds(180)

    package init(capacity: Int = 100_000) { self.capacity = capacity }

    package var isEmpty: Bool { records.isEmpty }

    // MARK: What happened

    /// Notes that a call has begun to wait for the phone.
    package mutating func called(_ device: DeviceID, now: Instant) {
        if records[device] == nil { make(device) }
        guard var record = records[device] else { return }
        if let before = record.calledAt, now - before <= Self.longestWake { return }
        record.calledAt = now
        record.isPushed = false
        records[device] = record
    }

    /// Notes that a provider has accepted a push to the phone.
    package mutating func pushed(_ device: DeviceID) {
        if records[device]?.calledAt != nil { records[device]?.isPushed = true }
    }

    /// Notes that the phone has registered, or has sent another message.
    package mutating func returned(_ device: DeviceID, now: Instant) {
        // The first check is whether there are records, because most daemons keep no wake records.
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

    /// Notes that a call has stopped waiting for the phone.
    ///
    /// A wait below ``shortest``, which a caller's Expires can cause, is not recorded as a miss.
    package mutating func missed(_ device: DeviceID, now: Instant) {
        guard !records.isEmpty, var record = records[device], record.isPushed, let calledAt = record.calledAt,
            now - calledAt >= Self.shortest
        else { return }
        if let before = record.missedAt, now - before < Self.missPause { return }
        record.misses = min(record.misses + 1, Self.mostMisses)
        record.missedAt = now
        records[device] = record
    }

    /// Deletes the wake records of a device that was removed or has a new push token.
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
        // If a device was removed and later got a push again, the queue has the device twice.
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
    fileprivate var tenths: UInt16 { UInt16(clamping: (max(0, nanoseconds) + 99_999_999) / 100_000_000) }
}
