import Collections
import TestSupport
import Testing

@Suite("Age list")
struct AgeListTests {
    @Test func `the oldest is known, whichever element leaves`() {
        var list = AgeList<Int>()
        #expect(list.oldest == nil)
        let places = (0..<4).map { list.append($0) }
        #expect(list.oldest == 0)
        list.remove(places[1])
        #expect(list.oldest == 0)
        list.remove(places[0])
        #expect(list.oldest == 2)
        let four = list.append(4)
        list.remove(places[3])
        list.remove(places[2])
        #expect(list.oldest == 4)
        #expect(list.count == 1)
        list.remove(four)
        #expect(list.isEmpty)
        _ = list.append(5)
        #expect(list.oldest == 5)
    }

    @Test func `it behaves like a plain array`() {
        var generator = SeededGenerator()
        var list = AgeList<Int>()
        var model: [(element: Int, place: AgeList<Int>.Place)] = []
        for step in 0..<5000 {
            if model.isEmpty || generator.next(upperBound: UInt(model.count < 40 ? 3 : 8)) > 1 && model.count < 60 {
                model.append((step, list.append(step)))
            } else {
                list.remove(model.remove(at: Int.random(in: 0..<model.count, using: &generator)).place)
            }
            #expect(list.oldest == model.first?.element)
            #expect(list.count == model.count)
        }
    }
}
