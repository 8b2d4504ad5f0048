import Collections
import Testing

@Suite("Lists and values that are mostly short or absent")
struct RareTests {
    private struct Record: Hashable {
        var name = "a"
        var notes = Rare<[Int]>()
    }

    @Test func `a value begins when it is changed first, and a copy of its record keeps its own`() {
        var record = Record()
        #expect(record.notes.value == nil && MemoryLayout<Rare<[Int]>>.size == MemoryLayout<Int>.size)
        let before = record
        record.notes.change(orNew: [1]) { $0.append(2) }
        var copy = record
        copy.notes.change(orNew: []) { $0.append(3) }
        #expect(before.notes.value == nil && record.notes.value == [1, 2] && copy.notes.value == [1, 2, 3])
        #expect(record != before && record != copy)
    }

    @Test func `elements of a short list are changed in their places`() {
        var list = ShortList<[Int]>()
        list.append([0])
        list[0].append(1)
        list.append([10])
        list[1].append(11)
        list[0][1] = 5
        #expect(Array(list) == [[0, 5], [10, 11]] && list.count == 2)
        let copy = list
        list[0] = []
        #expect(copy[0] == [0, 5] && list[0].isEmpty && list.first == [])
    }
}
