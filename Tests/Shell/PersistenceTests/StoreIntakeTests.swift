import Addressing
import ProxyCore
import Registration
import StoreTesting
import TestSupport
import Testing

@testable import Persistence

@Suite("Store, changes that wait to be written")
struct StoreIntakeTests {
    private var intake = StoreIntake(groupSizeLimit: 4)

    private func entry(_ ticket: UInt64, _ changes: [RowChange], isAwaited: Bool = true) -> StoreIntake.Entry {
        StoreIntake.Entry(ticket: isAwaited ? .service(ticket) : nil, changes: changes)
    }

    /// Makes `count` changes that do not belong to a binding.
    private func notes(_ count: Int) -> [RowChange] { (0..<count).map { .service(.note(key: "k\($0)", value: "v")) } }

    private func row(_ id: UInt64, _ cseq: UInt32) -> RowChange { .engine(.binding(.upsert(.sample(id, cseq: cseq)))) }

    /// The tickets of the batch's entries for whose result somebody waits.
    private func tickets(_ batch: StoreIntake.Batch) -> [UInt64] {
        batch.entries.compactMap { entry in
            guard case .service(let number) = entry.ticket else { return nil }
            return number
        }
    }

    /// The CSeq numbers, by device, of the rows in the batch that nobody waits for.
    private func lazy(_ batch: StoreIntake.Batch) -> [DeviceID: UInt32] {
        Dictionary(uniqueKeysWithValues: batch.lazyRows.map { ($0.id, $0.cseq) })
    }

    @Test mutating func `entries are taken whole and in order, as many as fit`() {
        for (ticket, count) in [(1, 2), (2, 1), (3, 2), (4, 1)] {
            #expect(intake.add(entry(UInt64(ticket), notes(count)), limit: 100) != nil)
        }
        #expect(intake.count == 6)
        let first = intake.take(limit: 4, withLazyRows: false)
        // The third entry does not fit into the batch, and the fourth entry, which would fit, must not overtake the
        // third.
        #expect(tickets(first) == [1, 2])
        #expect(first.changeCount == 3)
        #expect(intake.count == 3)
        #expect(tickets(intake.take(limit: 4, withLazyRows: false)) == [3, 4])
        #expect(intake.take(limit: 4, withLazyRows: true).isEmpty)
        #expect(intake.count == 0)
    }

    @Test mutating func `an entry that is larger than a transaction is written alone`() {
        _ = intake.add(entry(1, notes(9)), limit: 100)
        _ = intake.add(entry(2, notes(1)), limit: 100)
        #expect(tickets(intake.take(limit: 4, withLazyRows: false)) == [1])
        #expect(tickets(intake.take(limit: 4, withLazyRows: false)) == [2])
    }

    @Test
    mutating func `a full queue refuses whole entries until some are removed, and lazy rows need no room in it`() {
        #expect(intake.add(entry(1, notes(2)), limit: 3) == .now)
        #expect(intake.add(entry(2, notes(2)), limit: 3) == nil)
        #expect(intake.add(entry(3, notes(1)), limit: 3) != nil)
        #expect(intake.add(entry(4, notes(1), isAwaited: false), limit: 3) == nil)
        #expect(intake.addLazily([.sample(1)], limit: 3) == true)
        #expect(intake.count == 3)
        #expect(tickets(intake.take(limit: 10, withLazyRows: false)) == [1, 3])
        #expect(intake.add(entry(5, notes(3)), limit: 3) == .now)
    }

    @Test mutating func `an entry that is refused leaves the lazy row of its binding as it was`() {
        #expect(intake.addLazily([.sample(1, cseq: 2)], limit: 10) == true)
        #expect(intake.add(entry(1, [row(1, 3)]), limit: 0) == nil)
        #expect(lazy(intake.take(limit: 10, withLazyRows: true)) == [DeviceID(rawValue: 1): 2])
    }

    @Test
    mutating func `the writer is called once for entries that may gather, and once more for the first that may not`() {
        #expect(intake.add(entry(1, notes(1), isAwaited: false), limit: 100) == .soon)
        #expect(intake.add(entry(2, notes(1), isAwaited: false), limit: 100) == StoreIntake.Notice.none)
        #expect(intake.add(entry(3, notes(1)), limit: 100) == .now)
        #expect(intake.add(entry(4, notes(1)), limit: 100) == StoreIntake.Notice.none)
        #expect(intake.add(entry(5, notes(1), isAwaited: false), limit: 100) == StoreIntake.Notice.none)
        // The batch does not contain all entries, so the writer later takes the remaining entries without a new notice.
        _ = intake.take(limit: 3, withLazyRows: false)
        #expect(intake.add(entry(6, notes(1)), limit: 100) == StoreIntake.Notice.none)
        // The intake gives no second notice, because the writer takes more entries when the gathering time of the first
        // notice is over.
        _ = intake.take(limit: 100, withLazyRows: false)
        #expect(intake.add(entry(7, notes(1), isAwaited: false), limit: 100) == StoreIntake.Notice.none)
        let hasMore = intake.gatheringEnded()
        #expect(hasMore)
        _ = intake.take(limit: 100, withLazyRows: false)
        #expect(intake.add(entry(8, notes(1), isAwaited: false), limit: 100) == .soon)
        #expect(intake.add(entry(9, notes(1)), limit: 100) == .now)
        _ = intake.take(limit: 100, withLazyRows: false)
        let hasMoreAgain = intake.gatheringEnded()
        #expect(!hasMoreAgain)
    }

    @Test mutating func `the writer is called once more when as many wait as in recent commits`() {
        func call(_ ticket: UInt64, isAwaited: Bool = true) -> StoreIntake.Notice {
            intake.add(entry(ticket, notes(1), isAwaited: isAwaited), limit: 1000) ?? .none
        }
        func take() { _ = intake.take(limit: 1000, withLazyRows: false) }
        // The writer writes the first change at once, because the intake does not know yet how many clients exist.
        #expect([1, 2, 3, 4].map { call($0) } == [.now, .none, .none, .none])
        take()
        // The intake does not count a change that nobody waits for as a client.
        #expect(call(5, isAwaited: false) == .soon)
        #expect([6, 7, 8].map { call($0) } == [.now, .none, .none])
        #expect(!intake.isGroupComplete)
        #expect(call(9) == .atOnce && intake.isGroupComplete)
        #expect(call(10) == .none)
        take()
        #expect(!intake.isGroupComplete)
        // The intake expects five clients, as in the last group, even if fewer arrive once.
        #expect(call(11) == .now)
        take()
        #expect([12, 13, 14].map { call($0) } == [.now, .none, .none])
        #expect(call(15) == .atOnce)
        for ticket in 16...40 {
            take()
            _ = call(UInt64(ticket))
        }
        // The writer does not wait for a group if clients hardly ever arrive at the same time.
        take()
        #expect([41, 42, 43].map { call($0) } == [.now, .none, .none])
    }

    @Test mutating func `changes that are not awaited gather until there are many`() {
        for ticket in 1...4 {
            let call = intake.add(entry(UInt64(ticket), notes(2), isAwaited: false), limit: 100, gatherLimit: 8)
            #expect(call == [.soon, StoreIntake.Notice.none, .none, .now][ticket - 1])
        }
        #expect(intake.add(entry(5, notes(2), isAwaited: false), limit: 100, gatherLimit: 8) == StoreIntake.Notice.none)
    }

    @Test mutating func `entries that did not fit are left, and need no second call`() {
        _ = intake.add(entry(1, notes(2)), limit: 100)
        _ = intake.add(entry(2, notes(2), isAwaited: false), limit: 100)
        let first = intake.take(limit: 3, withLazyRows: false)
        #expect(first.leavesEntries)
        let second = intake.take(limit: 3, withLazyRows: false)
        #expect(!second.leavesEntries)
    }

    @Test mutating func `of a binding's lazy rows the newest counts, and the writer is called for the first of all`() {
        #expect(intake.addLazily([.sample(1, cseq: 2), .sample(2, cseq: 2)], limit: 3) == true)
        #expect(intake.addLazily([.sample(1, cseq: 3)], limit: 3) == false)
        #expect(intake.lazyCount == 2)
        // The intake's limit accepts all rows of a call or none of them.
        #expect(intake.addLazily([.sample(3), .sample(4)], limit: 3) == nil)
        #expect(
            lazy(intake.take(limit: 10, withLazyRows: true))
                == [DeviceID(rawValue: 1): 3, DeviceID(rawValue: 2): 2])
        #expect(intake.addLazily([.sample(1)], limit: 3) == true)
    }

    @Test(arguments: [false, true])
    mutating func `a change of a binding takes the place of its lazy row`(isRemoval: Bool) {
        _ = intake.addLazily([.sample(1, cseq: 2), .sample(2, cseq: 2)], limit: 10)
        let change = isRemoval ? RowChange.engine(.binding(.delete(DeviceID(rawValue: 1)))) : row(1, 3)
        _ = intake.add(entry(1, notes(1) + [change]), limit: 10)
        let batch = intake.take(limit: 10, withLazyRows: true)
        #expect(tickets(batch) == [1])
        #expect(lazy(batch) == [DeviceID(rawValue: 2): 2])
    }

    @Test mutating func `lazy rows go when they are asked for, after all others and as many as fit`() {
        _ = intake.addLazily((1...3).map { .sample($0) }, limit: 10)
        _ = intake.add(entry(1, notes(2)), limit: 10)
        _ = intake.add(entry(2, notes(2)), limit: 10)
        #expect(intake.take(limit: 3, withLazyRows: true).lazyRows.isEmpty)
        #expect(intake.lazyCount == 3)
        let last = intake.take(limit: 3, withLazyRows: true)
        #expect(tickets(last) == [2])
        #expect(last.lazyRows.count == 1)
        #expect(last.changeCount == 3)
        #expect(intake.take(limit: 3, withLazyRows: false).isEmpty)
        #expect(intake.take(limit: 3, withLazyRows: true).lazyRows.count == 2)
        #expect(intake.lazyCount == 0)
    }

    @Test mutating func `lazy rows whose commit failed wait again, unless newer ones replace them`() {
        _ = intake.addLazily((1...4).map { .sample($0, cseq: 2) }, limit: 10)
        let failed = intake.take(limit: 10, withLazyRows: true)
        _ = intake.addLazily([.sample(1, cseq: 3)], limit: 10)
        _ = intake.add(entry(1, [row(2, 3), .engine(.binding(.delete(DeviceID(rawValue: 3))))]), limit: 10)
        intake.restore(failed.lazyRows)
        let batch = intake.take(limit: 10, withLazyRows: true)
        #expect(tickets(batch) == [1])
        #expect(lazy(batch) == [DeviceID(rawValue: 1): 3, DeviceID(rawValue: 4): 2])
    }

    @Test mutating func `when closed it accepts no entries, and returns the ones that it has`() {
        _ = intake.add(entry(1, notes(1)), limit: 10)
        _ = intake.addLazily([.sample(1)], limit: 10)
        intake.close()
        #expect(intake.isClosed)
        #expect(intake.add(entry(2, notes(1)), limit: 10) == nil)
        #expect(intake.addLazily([.sample(2)], limit: 10) == nil)
        let batch = intake.take(limit: 10, withLazyRows: true)
        #expect(tickets(batch) == [1])
        #expect(batch.lazyRows == [.sample(1)])
    }
}
