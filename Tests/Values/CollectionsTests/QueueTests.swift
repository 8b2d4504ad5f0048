import TestSupport
import Testing

@testable import Collections

@Suite("Queue")
struct QueueTests {
    private func drained<Element>(_ queue: inout Queue<Element>) -> [Element] {
        var taken: [Element] = []
        while let element = queue.popFirst() { taken.append(element) }
        return taken
    }

    @Test func `elements leave in the order in which they came`() {
        var queue = Queue<Int>()
        #expect(queue.popFirst() == nil)
        for number in 1...5 { queue.append(number) }
        #expect(drained(&queue) == [1, 2, 3, 4, 5])
        #expect(queue.popFirst() == nil)
    }

    @Test func `elements that come while others leave are behind them`() {
        var queue = Queue<Int>()
        queue.append(1)
        queue.append(2)
        #expect(queue.popFirst() == 1)
        queue.append(3)
        #expect(queue.popFirst() == 2)
        queue.append(4)
        #expect(drained(&queue) == [3, 4])
    }

    @Test func `it shows all elements, whichever stack they are on`() {
        var queue = Queue<Int>()
        #expect(queue.count == 0 && queue.isEmpty && queue.first == nil && queue.elements.isEmpty)
        for number in 1...3 { queue.append(number) }
        #expect(queue.count == 3 && !queue.isEmpty && queue.first == 1 && queue.elements == [1, 2, 3])
        _ = queue.popFirst()
        #expect(queue.count == 2 && !queue.isEmpty && queue.first == 2 && queue.elements == [2, 3])
        queue.append(4)
        #expect(queue.count == 3 && queue.first == 2 && queue.elements == [2, 3, 4])
        for number in 2...4 { #expect(queue.popFirst() == number) }
        #expect(queue.count == 0 && queue.isEmpty && queue.first == nil && queue.elements.isEmpty)
    }

    @Test func `any mixture of operations keeps the order`() {
        var random = SeededGenerator()
        for _ in 0..<50 {
            var queue = Queue<Int>()
            var (next, expected) = (0, 0)
            for _ in 0..<1000 {
                if random.next() % 2 == 0 {
                    queue.append(next)
                    next += 1
                } else if let element = queue.popFirst() {
                    #expect(element == expected)
                    expected += 1
                } else {
                    #expect(expected == next)
                }
                #expect(queue.count == next - expected)
            }
            #expect(drained(&queue) == Array(expected..<next))
        }
    }

    @Test func `a long queue releases its memory when it is empty, and a short one keeps it`() {
        var queue = Queue<Int>()
        for number in 0..<100_000 { queue.append(number) }
        for number in 0..<99_999 { #expect(queue.popFirst() == number) }
        #expect(queue.capacity >= 100_000)
        queue.append(100_000)
        _ = drained(&queue)
        #expect(queue.capacity <= 2 * Queue<Int>.keptCapacity)
        for number in 0..<100 { queue.append(number) }
        _ = drained(&queue)
        #expect(queue.capacity >= 100)
    }

    private final class Witness {
        let released: () -> Void
        init(_ released: @escaping () -> Void) { self.released = released }
        deinit { released() }
    }

    @Test func `elements that have left are released while others wait`() {
        var released = 0
        var queue = Queue<Witness>()
        for _ in 0..<10 { queue.append(Witness { released += 1 }) }
        for number in 1...9 {
            _ = queue.popFirst()
            #expect(released == number)
        }
        queue = Queue()
        #expect(released == 10)
    }
}
