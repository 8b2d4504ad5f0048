import Addressing
import Bytes
import PushDelivery
import TestSupport
import Testing
import Timekeeping

private let start = UnixTime(seconds: 1_700_000_000)
private let first = CallRef(rawValue: 1)
private let second = CallRef(rawValue: 2)
private let third = CallRef(rawValue: 3)
private let phone: DeviceID = 7
private let tablet: DeviceID = 8
private let settings = BucketSettings()

extension MissedCallBucket {
    fileprivate mutating func offer(
        _ ref: CallRef, after seconds: Int = 0, to devices: [DeviceID] = [phone], by caller: Caller? = nil,
        settings: BucketSettings = settings
    ) -> [BucketChange] {
        callOffered(
            ref, caller: ByteString("10\(ref.rawValue)"), by: caller ?? owner(ref), at: start + .seconds(seconds),
            devices: devices,
            settings: settings)
    }

    fileprivate mutating func miss(_ ref: CallRef, after seconds: Int = 0, to devices: [DeviceID] = [phone]) {
        _ = offer(ref, after: seconds, to: devices)
        _ = callEnded(ref)
    }

    fileprivate mutating func returned(_ device: DeviceID, after seconds: Int = 100) -> [CallRef] {
        deviceReturned(device, settings: settings, now: start + .seconds(seconds)).refs
    }
}

private func entry(
    _ ref: CallRef, after seconds: Int = 0, to devices: [DeviceID] = [phone], told: [DeviceID] = [], isOver: Bool,
    isStored: Bool = true
) -> BucketEntry {
    BucketEntry(
        callRef: ref, caller: ByteString("10\(ref.rawValue)"), date: start + .seconds(seconds), broughtBy: owner(ref),
        devices: devices, told: told, isOver: isOver, isStored: isStored)
}

/// The caller of the call `ref`. By default, each call has another caller.
private func owner(_ ref: CallRef) -> Caller { Caller(hash: ref.rawValue, isTrusted: true) }

@Suite("Missed-call bucket (R19 to R27, A20 to A25)")
struct MissedCallBucketTests {
    // MARK: Tokens that carry no list (A28)

    @Test func `a token without lists is reported once, and the call stays`() {
        var bucket = MissedCallBucket()
        bucket.miss(first)
        bucket.miss(second, to: [phone, tablet])
        func said(after seconds: Int = 100) -> [CallRef] {
            bucket.listNotCarried(by: phone, settings: settings, now: start + .seconds(seconds)).refs
        }
        #expect(said() == [first, second])
        #expect(said() == [])
        bucket.miss(third, after: 200)
        #expect(said(after: 300) == [third])
        // The tablet gets its list of missed calls at once. The phone gets its list when it has a token that can carry
        // lists.
        #expect(bucket.returned(tablet) == [second])
        #expect(bucket.returned(phone) == [first, second, third])
        _ = bucket.reportAccepted([first, second, third], by: phone)
        #expect(said() == [])
    }

    @Test func `calls that cannot be reported are removed by age and by number like all others`() {
        var settings = settings
        settings.maximumEntries = 2
        settings.maximumAge = .seconds(1000)
        var bucket = MissedCallBucket()
        for (ref, seconds) in [(first, 0), (second, 100), (third, 200)] {
            _ = bucket.offer(ref, after: seconds, settings: settings)
            _ = bucket.callEnded(ref)
        }
        #expect(bucket.entries.map(\.callRef) == [second, third])
        #expect(!bucket.hasOld(settings, now: start + .seconds(1100)))
        let said = bucket.listNotCarried(by: phone, settings: settings, now: start + .seconds(1101))
        #expect(said.refs == [third] && said.changes == [.delete(second)])
        #expect(bucket.hasOld(settings, now: start + .seconds(1201)))
        #expect(bucket.dropOld(settings, now: start + .seconds(1201)) == [.delete(third)])
        #expect(bucket.isEmpty)
    }

    // MARK: Rows and the journal

    @Test func `while a call is offered it has no row, and an answered call never has one`() {
        var bucket = MissedCallBucket()
        #expect(bucket.offer(first, to: [phone, tablet]) == [])
        #expect(bucket.unread(of: phone) == 1)
        #expect(bucket.deviceReached(first, phone) == [])
        #expect(bucket.entries.map(\.told) == [[phone]])
        #expect(bucket.callAnswered(first) == [])
        #expect(bucket.isEmpty)
    }

    @Test func `a call that all devices have heard of never has a row`() {
        var bucket = MissedCallBucket()
        _ = bucket.offer(first)
        #expect(bucket.deviceReached(first, phone) == [])
        #expect(bucket.isEmpty)
        #expect(bucket.callEnded(first) == [])
    }

    @Test func `a call that is over and was missed has a row from then on`() {
        var bucket = MissedCallBucket()
        _ = bucket.offer(first, to: [phone, tablet])
        #expect(bucket.callEnded(first) == [.upsert(entry(first, to: [phone, tablet], isOver: true))])
        #expect(bucket.callEnded(first) == [])
        #expect(bucket.returned(phone) == [first])
        #expect(
            bucket.reportAccepted([first], by: phone)
                == [.upsert(entry(first, to: [tablet], told: [phone], isOver: true))])
        #expect(bucket.deviceReached(first, tablet) == [.delete(first)])
    }

    /// The bucket writes changes of devices immediately, because the call journal contains only the devices that were
    /// called at the start of a call.
    @Test func `changes that a journal does not have are written at once`() {
        var removed = MissedCallBucket()
        _ = removed.offer(first, to: [phone, tablet])
        #expect(removed.deviceRemoved(phone) == [.upsert(entry(first, to: [tablet], isOver: false))])
        #expect(removed.callAnswered(first) == [.delete(first)])
        var died = MissedCallBucket()
        _ = died.offer(first)
        #expect(died.deviceDied(phone, successors: [tablet]) == [.upsert(entry(first, to: [tablet], isOver: false))])
        var more = MissedCallBucket()
        _ = more.offer(first)
        #expect(more.offer(first, to: [phone, tablet]) == [.upsert(entry(first, to: [phone, tablet], isOver: false))])
        #expect(more.offer(first, to: [tablet]) == [])
        #expect(more.offer(second, to: []) == [])
        #expect(more.entries.count == 1)
    }

    @Test func `a call of an earlier run is offered again, with its row or without`() {
        var bucket = MissedCallBucket(restoring: [entry(first, to: [tablet], isOver: false)])
        #expect(bucket.entries.map(\.isOver) == [true])
        for ref in [first, second] {
            let changes = bucket.callResumed(
                ref, caller: ByteString("10\(ref.rawValue)"), by: owner(ref), at: start, devices: [phone, tablet],
                settings: settings)
            #expect(changes == [])
        }
        #expect(bucket.entries.map(\.isOver) == [false, false])
        #expect(bucket.entries.map(\.devices) == [[tablet], [phone, tablet]])
        #expect(bucket.callAnswered(second) == [])
        #expect(bucket.callAnswered(first) == [.delete(first)])
    }

    // MARK: The life of an entry

    @Test func `a call is kept from its push on`() {
        var bucket = MissedCallBucket()
        _ = bucket.offer(first)
        #expect(bucket.entries == [entry(first, isOver: false, isStored: false)])
    }

    @Test func `an answer anywhere removes it`() {
        var bucket = MissedCallBucket()
        _ = bucket.offer(first, to: [phone, tablet])
        _ = bucket.deviceRemoved(tablet)
        #expect(bucket.callAnswered(first) == [.delete(first)])
        #expect(bucket.isEmpty)
        #expect(bucket.callAnswered(first) == [])
        #expect(bucket.returned(phone) == [])
    }

    @Test func `a device that rang knows, the others do not`() {
        var bucket = MissedCallBucket()
        _ = bucket.offer(first, to: [phone, tablet])
        #expect(bucket.deviceReached(first, phone) == [])
        #expect(bucket.deviceReached(first, phone) == [])
        #expect(bucket.callEnded(first) == [.upsert(entry(first, to: [tablet], told: [phone], isOver: true))])
        #expect(bucket.returned(phone) == [])
        #expect(bucket.returned(tablet) == [first])
    }

    // MARK: Reporting

    @Test func `a returning device gets all its missed calls, oldest first, two of one caller too`() {
        var bucket = MissedCallBucket()
        bucket.miss(second, after: 20)
        bucket.miss(first, after: 10)
        bucket.miss(third, after: 30)
        let report = bucket.deviceReturned(phone, settings: settings, now: start + .seconds(100))
        #expect(report.refs == [first, second, third])
        #expect(
            report.calls
                == [first, second, third].enumerated().map { index, ref in
                    MissedCall(
                        remoteURI: ByteString("10\(ref.rawValue)"), date: start + .seconds(10 * (index + 1)),
                        callRef: ref)
                })
        #expect(report.changes == [])
    }

    @Test func `a call that still rings is not missed`() {
        var bucket = MissedCallBucket()
        bucket.miss(first)
        _ = bucket.offer(second, after: 10)
        #expect(bucket.returned(phone) == [first])
        _ = bucket.callEnded(second)
        #expect(bucket.returned(phone) == [second])
    }

    @Test func `a second REGISTER does not report twice`() {
        var bucket = MissedCallBucket()
        bucket.miss(first)
        #expect(bucket.returned(phone) == [first])
        #expect(bucket.returned(phone) == [])
    }

    @Test func `accepted calls are removed`() {
        var bucket = MissedCallBucket()
        bucket.miss(first)
        bucket.miss(second, after: 10, to: [phone, tablet])
        let refs = bucket.returned(phone)
        #expect(
            bucket.reportAccepted(refs, by: phone)
                == [.delete(first), .upsert(entry(second, after: 10, to: [tablet], told: [phone], isOver: true))])
        #expect(bucket.returned(phone) == [])
        #expect(bucket.returned(tablet) == [second])
    }

    @Test func `refused calls are reported at the next return`() {
        var bucket = MissedCallBucket()
        bucket.miss(first)
        bucket.reportFailed(bucket.returned(phone), by: phone)
        #expect(bucket.returned(phone) == [first])
    }

    @Test func `each device gets its own list`() {
        var bucket = MissedCallBucket()
        bucket.miss(first, to: [phone, tablet])
        #expect(bucket.returned(phone) == [first])
        #expect(bucket.returned(tablet) == [first])
        bucket.reportFailed([first], by: phone)
        #expect(bucket.reportAccepted([first], by: tablet) == [.upsert(entry(first, told: [tablet], isOver: true))])
        #expect(bucket.returned(phone) == [first])
    }

    @Test func `calls of a dead device go to the devices that do not know of them`() {
        var bucket = MissedCallBucket()
        bucket.miss(first, to: [phone, tablet])
        bucket.miss(second, after: 1)
        _ = bucket.reportAccepted([first], by: tablet)
        let changes = bucket.deviceDied(phone, successors: [tablet, phone])
        #expect(changes == [.delete(first), .upsert(entry(second, after: 1, to: [tablet], isOver: true))])
        #expect(bucket.returned(tablet) == [second])
        #expect(bucket.deviceDied(tablet, successors: []) == [.delete(second)])
        #expect(bucket.isEmpty)
    }

    @Test func `forgotten calls are removed, and deleted again if they were written in between`() {
        var bucket = MissedCallBucket()
        bucket.miss(first, to: [phone, tablet])
        bucket.miss(second, after: 1)
        let entries = bucket.entries
        // The device registers after the store has deleted its rows, and before the bucket knows about the deletion.
        _ = bucket.returned(phone)
        _ = bucket.reportAccepted([first], by: tablet)
        #expect(bucket.callsForgotten(entries) == [.delete(first)])
        #expect(bucket.isEmpty)
        #expect(bucket.callsForgotten(entries).isEmpty)
        // The provider accepts a list of missed calls whose calls an operator has deleted meanwhile.
        #expect(bucket.reportAccepted([first, second], by: phone).isEmpty)
        // After the bucket has forgotten a call, the bucket reports a new call that has the same id.
        bucket.miss(second)
        #expect(bucket.returned(phone) == [second])
    }

    @Test func `a removed device has no calls left`() {
        var bucket = MissedCallBucket()
        bucket.miss(first, to: [phone, tablet])
        bucket.miss(second, after: 1)
        #expect(bucket.deviceRemoved(phone) == [.upsert(entry(first, to: [tablet], isOver: true)), .delete(second)])
        #expect(bucket.returned(phone) == [])
        #expect(bucket.deviceRemoved(phone) == [])
    }

    @Test func `a report that ends after its device is removed changes nothing`() {
        var bucket = MissedCallBucket()
        bucket.miss(first)
        let refs = bucket.returned(phone)
        _ = bucket.deviceRemoved(phone)
        #expect(bucket.reportAccepted(refs, by: phone) == [])
        bucket.reportFailed(refs, by: phone)
        #expect(bucket.isEmpty)
    }

    // MARK: Badge

    @Test func `the badge counts calls that the device does not know, including the ringing one`() {
        var bucket = MissedCallBucket()
        bucket.miss(first, to: [phone, tablet])
        _ = bucket.offer(second, after: 10)
        #expect(bucket.unread(of: phone) == 2)
        #expect(bucket.unread(of: tablet) == 1)
        _ = bucket.reportAccepted(bucket.returned(phone), by: phone)
        #expect(bucket.unread(of: phone) == 1)
    }

    // MARK: Limits

    @Test func `the newest hundred calls of a device are kept`() {
        var bucket = MissedCallBucket()
        var deleted: [BucketChange] = []
        for number in 1...105 {
            let ref = CallRef(rawValue: UInt64(number))
            deleted += bucket.offer(ref, after: number).filter { $0 == .delete($0.ref) }
            _ = bucket.callEnded(ref)
        }
        #expect(deleted == (1...5).map { .delete(CallRef(rawValue: $0)) })
        #expect(bucket.entries.map(\.callRef.rawValue) == Array(6...105))
    }

    @Test func `a busy device does not push another's calls out`() {
        var bucket = MissedCallBucket()
        var small = BucketSettings()
        small.maximumEntries = 2
        bucket.miss(first, to: [tablet])
        for number in 10...15 {
            let ref = CallRef(rawValue: UInt64(number))
            _ = bucket.offer(ref, after: number, settings: small)
            _ = bucket.callEnded(ref)
        }
        #expect(bucket.unread(of: phone) == 2)
        #expect(bucket.unread(of: tablet) == 1)
    }

    // MARK: Callers (T32.4)

    /// Adds `count` calls of one caller to the bucket. Each call ends before the next begins.
    private func flood(_ bucket: inout MissedCallBucket, _ count: Int, by caller: Caller, from number: UInt64) {
        for index in 0..<UInt64(count) {
            let ref = CallRef(rawValue: number + index)
            _ = bucket.offer(ref, after: Int(number + index), by: caller)
            _ = bucket.callEnded(ref)
        }
    }

    @Test func `one caller's calls push out no one else's`() {
        var bucket = MissedCallBucket()
        for ref in [first, second, third] { bucket.miss(ref, after: Int(ref.rawValue)) }
        flood(&bucket, 120, by: Caller(hash: 900, isTrusted: false), from: 1_000)
        #expect(bucket.unread(of: phone) == 100)
        #expect(bucket.entries.prefix(3).map(\.callRef) == [first, second, third])
        // The full bucket has dropped the oldest calls of the caller with the most calls.
        #expect(bucket.entries[3].callRef == CallRef(rawValue: 1_023))
    }

    @Test func `phones leave room for what trusted peers bring, however many they are`() {
        var settings = settings
        settings.untrustedShare = 75
        var bucket = MissedCallBucket()
        for number in 0..<25 { bucket.miss(CallRef(rawValue: UInt64(number + 1)), after: number) }
        for number in 0..<UInt64(120) {
            let ref = CallRef(rawValue: 1_000 + number)
            _ = bucket.offer(
                ref, after: Int(1_000 + number), by: Caller(hash: number, isTrusted: false), settings: settings)
            _ = bucket.callEnded(ref)
        }
        #expect(bucket.unread(of: phone) == 100)
        #expect(bucket.entries.filter(\.broughtBy.isTrusted).count == 25)
    }

    @Test func `calls that ring are never dropped for room`() {
        var bucket = MissedCallBucket()
        var small = BucketSettings()
        small.maximumEntries = 1
        _ = bucket.offer(first, settings: small)
        #expect(bucket.offer(second, after: 1, settings: small) == [])
        #expect(bucket.entries.count == 2)
    }

    @Test func `after a week a call is not reported any more`() {
        var bucket = MissedCallBucket()
        bucket.miss(first)
        bucket.miss(second, after: 10)
        let report = bucket.deviceReturned(phone, settings: settings, now: start + .seconds(604_805))
        #expect(report.refs == [second])
        #expect(report.changes == [.delete(first)])
    }

    // MARK: Restarts

    @Test func `rows become a bucket again, and calls that rang are over`() {
        var bucket = MissedCallBucket(restoring: [
            entry(second, after: 20, isOver: false), entry(first, after: 10, isOver: true),
        ])
        #expect(bucket.returned(phone) == [first, second])
    }

    /// After each change, the store must have the same calls as the bucket.
    @Test func `the changes rebuild the bucket`() {
        var generator = SeededGenerator(seed: 5)
        func random(_ bound: UInt64) -> UInt64 { generator.next(upperBound: bound) }
        var small = BucketSettings()
        small.maximumEntries = 3
        small.maximumAge = .seconds(300)
        var bucket = MissedCallBucket()
        var rows: [CallRef: BucketEntry] = [:]
        var reports: [(DeviceID, [CallRef])] = []
        for step in 0..<5_000 {
            let ref = CallRef(rawValue: UInt64(step) - random(min(UInt64(step) + 1, 8)))
            let device = DeviceID(rawValue: 7 + random(3))
            let now = start + .seconds(step * 10)
            let changes: [BucketChange]
            switch random(8) {
            case 0, 1:
                changes = bucket.callOffered(
                    CallRef(rawValue: UInt64(step)), caller: ByteString("x"),
                    by: Caller(hash: random(3), isTrusted: random(2) == 0), at: now,
                    devices: Array(Set([device, DeviceID(rawValue: 7 + random(3))])).sorted(), settings: small)
            case 2: changes = bucket.callEnded(ref)
            case 3: changes = bucket.deviceReached(ref, device)
            case 4:
                let report = bucket.deviceReturned(device, settings: small, now: now)
                reports.append((device, report.refs))
                changes = report.changes
            case 5:
                guard let (device, refs) = reports.popLast() else { continue }
                changes = bucket.reportAccepted(refs, by: device)
            case 6:
                guard let (device, refs) = reports.popLast() else { continue }
                bucket.reportFailed(refs, by: device)
                changes = []
            default: changes = random(4) == 0 ? bucket.deviceRemoved(device) : bucket.callAnswered(ref)
            }
            for change in changes {
                switch change {
                case .upsert(let entry): rows[entry.callRef] = entry
                case .delete(let ref): rows[ref] = nil
                }
            }
            #expect(Set(rows.values) == Set(bucket.entries.filter(\.isStored)))
            #expect(bucket.entries.allSatisfy { $0.isStored || !$0.isOver })
            #expect(bucket.entries.map(\.date) == bucket.entries.map(\.date).sorted())
            #expect(bucket.entries.allSatisfy { !$0.devices.isEmpty })
        }
        #expect(!reports.isEmpty)
    }
}

extension BucketChange {
    fileprivate var ref: CallRef {
        switch self {
        case .upsert(let entry): entry.callRef
        case .delete(let ref): ref
        }
    }
}
