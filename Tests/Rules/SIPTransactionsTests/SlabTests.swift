import Addressing
import Bytes
import Testing

@testable import SIPTransactions

@Suite("Records found by numbers")
struct SlabTests {
    private struct Record: SlabRecord {
        var id: UInt64 = 0
        var text: String?
        mutating func vacate() { text = nil }
    }

    @Test func `a number finds its record, and is never given again`() {
        var slab = Slab<Record>()
        let first = slab.insert(Record(text: "a"))
        let second = slab.insert(Record(text: "b"))
        let (a, b) = (slab.records[first].id, slab.records[second].id)
        #expect(slab.slot(of: a) == first && slab.slot(of: b) == second && slab.count == 2)
        slab.remove(slot: first)
        #expect(slab.slot(of: a) == nil && slab.records[first].text == nil && slab.count == 1)
        // The new record gets the slot of a removed record, and the old id finds no record.
        let third = slab.insert(Record(text: "c"))
        #expect(third == first && slab.slot(of: a) == nil)
        #expect(slab.slot(of: slab.records[third].id) == third)
    }

    @Test func `other numbers find nothing`() {
        var slab = Slab<Record>()
        _ = slab.insert(Record(text: "a"))
        for id in [0, 1, UInt64.max, 1 << 24 | 1, 2 << 24] as [UInt64] { #expect(slab.slot(of: id) == nil) }
    }
}

@Suite("Branches of an earlier run")
struct InheritedBranchesTests {
    @Test func `are found in either case, until their transaction ends`() {
        var branches = InheritedBranches()
        #expect(branches.isEmpty)
        let (one, two) = (ClientTransactionID(rawValue: 1), ClientTransactionID(rawValue: 2))
        branches.add(ByteString("z9hG4bKAbc"), one)
        branches.add(ByteString("z9hG4bKdef"), two)
        #expect(branches[ByteString("Z9HG4BKABC")] == one && branches[ByteString("z9hG4bKdef")] == two)
        #expect(branches[ByteString("z9hG4bKabcd")] == nil)
        branches.remove(one)
        branches.remove(one)
        #expect(branches[ByteString("z9hG4bKAbc")] == nil && !branches.isEmpty)
        branches.remove(two)
        #expect(branches.isEmpty)
    }
}
