import Collections
import Testing

@Suite("Rare values of records")
struct RareTests {
    private struct Record: Hashable {
        var name = "a"
        var notes = BoxedOptional<[Int]>()
    }

    @Test func `a value is created at its first change, and a copy of its record keeps its own`() {
        var record = Record()
        #expect(record.notes.value == nil && MemoryLayout<BoxedOptional<[Int]>>.size == MemoryLayout<Int>.size)
        let before = record
        record.notes.change(orNew: [1]) { $0.append(2) }
        var copy = record
        copy.notes.change(orNew: []) { $0.append(3) }
        #expect(before.notes.value == nil && record.notes.value == [1, 2] && copy.notes.value == [1, 2, 3])
        #expect(record != before && record != copy)
    }
}
