@testable import Waking
import Addressing
import TestSupport
import Testing
import Timekeeping

@Suite("What phones did after former pushes")
struct WakeRecordsTests {
    private var now = Instant(nanoseconds: 1_000_000_000)
    private let phone: DeviceID = 71

    private mutating func wake(_ records: inout WakeRecords, after time: Duration) {
        records.called(phone, now: now)
        records.pushed(phone)
        records.returned(phone, now: now + time)
        now = now + .seconds(600)
    }

    private mutating func miss(_ records: inout WakeRecords) {
        records.called(phone, now: now)
        records.pushed(phone)
        records.missed(phone, now: now + .seconds(30))
        now = now + .seconds(600)
    }

    @Test mutating func `ten wakes bound the wait by the slowest, and never below five seconds`() {
        var records = WakeRecords()
        for _ in 0..<9 { wake(&records, after: .seconds(7)) }
        #expect(records.bound(of: phone) == .none)
        wake(&records, after: .milliseconds(8210))
        #expect(records.bound(of: phone) == .after(.milliseconds(8300)))
        var quick = WakeRecords()
        for _ in 0..<20 { wake(&quick, after: .milliseconds(300)) }
        #expect(quick.bound(of: phone) == .after(.seconds(5)))
    }

    @Test mutating func `of a hundred wakes the slowest does not count, and old ones are replaced`() {
        var records = WakeRecords()
        for _ in 0..<99 { wake(&records, after: .seconds(8)) }
        wake(&records, after: .seconds(29))
        #expect(records.bound(of: phone) == .after(.seconds(8)))
        for _ in 0..<100 { wake(&records, after: .seconds(12)) }
        #expect(records.bound(of: phone) == .after(.seconds(12)))
    }

    @Test mutating func `a wait that a caller has made short is no miss`() {
        var records = WakeRecords()
        for _ in 0..<20 {
            records.called(phone, now: now)
            records.pushed(phone)
            records.missed(phone, now: now + .seconds(2))
            now = now + .seconds(600)
        }
        #expect(records.bound(of: phone) == .none)
    }

    @Test mutating func `a wake after the wait counts, so that the bound can grow again`() {
        var records = WakeRecords()
        for _ in 0..<10 { wake(&records, after: .seconds(6)) }
        records.called(phone, now: now)
        records.pushed(phone)
        records.missed(phone, now: now + .seconds(6))
        records.returned(phone, now: now + .seconds(20))
        #expect(records.bound(of: phone) == .after(.seconds(20)))
    }

    @Test mutating func `a phone that comes without an accepted push, or much later, shows no wake`() {
        var records = WakeRecords()
        for _ in 0..<20 {
            records.called(phone, now: now)
            records.returned(phone, now: now + .seconds(7))
            now = now + .seconds(600)
            wake(&records, after: .seconds(181))
        }
        #expect(records.bound(of: phone) == .none)
    }

    @Test mutating func `ten misses and it is not waited for, until it returns`() {
        var records = WakeRecords()
        for _ in 0..<9 { miss(&records) }
        #expect(records.bound(of: phone) == .none)
        miss(&records)
        #expect(records.bound(of: phone) == .notWaited)
        records.returned(phone, now: now)
        #expect(records.bound(of: phone) == .none)
        miss(&records)
        #expect(records.bound(of: phone) == .none)
    }

    @Test mutating func `calls by the dozen are one miss, and so are pushes that no provider took`() {
        var records = WakeRecords()
        for second in 0..<40 {
            records.called(phone, now: now + .seconds(second))
            records.pushed(phone)
            records.missed(phone, now: now + .seconds(second))
        }
        #expect(records.bound(of: phone) == .none)
        now = now + .seconds(600)
        for _ in 0..<20 {
            records.called(phone, now: now)
            records.missed(phone, now: now + .seconds(30))
            now = now + .seconds(600)
        }
        #expect(records.bound(of: phone) == .none)
    }

    @Test mutating func `the oldest phones are forgotten, and a phone that is gone`() {
        var records = WakeRecords(capacity: 2)
        for _ in 0..<10 { miss(&records) }
        #expect(records.bound(of: phone) == .notWaited)
        records.called(72, now: now)
        #expect(records.bound(of: phone) == .notWaited)
        records.called(73, now: now)
        #expect(records.bound(of: phone) == .none)
        for _ in 0..<10 { miss(&records) }
        records.forget(phone)
        #expect(records.bound(of: phone) == .none)
        for _ in 0..<20 {
            records.called(phone, now: now)
            records.forget(phone)
        }
        records.forgetAll()
        #expect(records.isEmpty)
    }
}
