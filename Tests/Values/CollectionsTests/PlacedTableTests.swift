import Collections
import TestSupport
import Testing

@Suite("Tables whose records keep their places")
struct PlacedTableTests {
    @Test func `a record is found by its key and by its place until it is removed`() {
        var table = PlacedTable<String, Int>(empty: 0)
        #expect(table["a"] == nil && table.isEmpty)
        let place = table.madePlace(of: "a")
        table[place] = 7
        #expect(table["a"] == 7 && table.madePlace(of: "a") == place && table.key(at: place) == "a")
        table.remove(at: place)
        #expect(table["a"] == nil && table.isEmpty && table.key(at: place) == nil)
    }

    @Test func `a place is used again, and begins empty`() {
        var table = PlacedTable<String, [Int]>(empty: [])
        let first = table.madePlace(of: "a")
        table[first].append(1)
        table.remove(at: first)
        table.remove(at: first)
        let second = table.madePlace(of: "b")
        #expect(second == first && table[second] == [] && table.count == 1)
        #expect(table.madePlace(of: "c") != second)
    }

    @Test func `it behaves like a dictionary`() {
        var numbers = SeededGenerator()
        var table = PlacedTable<Int, Int>(empty: 0)
        var model: [Int: Int] = [:]
        for step in 0..<20_000 {
            let key = Int.random(in: 0..<500, using: &numbers)
            if Bool.random(using: &numbers) {
                table[table.madePlace(of: key)] = step
                model[key] = step
            } else if let place = table.place(of: key) {
                table.remove(at: place)
                model[key] = nil
            }
        }
        #expect(Dictionary(uniqueKeysWithValues: table.all.map { ($0.key, $0.value) }) == model)
        #expect(table.count == model.count)
    }
}

@Suite("Lists that mostly have one element")
struct ShortListTests {
    @Test func `it behaves like an array`() {
        var numbers = SeededGenerator()
        var list = ShortList<Int>()
        var model: [Int] = []
        for step in 0..<5000 {
            let index = Int.random(in: 0...model.count, using: &numbers)
            switch Int.random(in: 0..<6, using: &numbers) {
            case 0, 1:
                list.append(step)
                model.append(step)
            case 2:
                list.insert(step, at: index)
                model.insert(step, at: index)
            case 3 where index < model.count: #expect(list.remove(at: index) == model.remove(at: index))
            case 4 where index < model.count:
                list[index] = step
                model[index] = step
            case 5:
                list.removeAll { $0 % 3 == 0 }
                model.removeAll { $0 % 3 == 0 }
            default: break
            }
            #expect(Array(list) == model && list.first == model.first && list.isEmpty == model.isEmpty)
        }
    }
}

@Suite("Compact values")
struct PackedTests {
    private struct Times: Equatable {
        @PackedOptional var first: Int32?
        @PackedOptional var second: Int32?
    }

    @Test func `a missing value takes no room`() {
        var times = Times()
        #expect(times.first == nil && MemoryLayout<Times>.size == 8)
        times.first = 0
        #expect(times.first == 0 && times.second == nil && times != Times())
        times.first = nil
        #expect(times == Times())
    }
}
