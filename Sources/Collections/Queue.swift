/// First in, first out, each in constant time on average: two stacks, of which the one that is taken from is refilled with
/// the other, turned over, when it is empty.
///
/// What was taken is released at once; a long queue gives its memory back when it is empty. Its owner limits it.
@usableFromInline
package struct Queue<Element> {
    /// Those that leave next; the first of them stands last.
    @usableFromInline var leaving: [Element] = []
    /// Those that leave after all of them, in their order.
    @usableFromInline var arrived: [Element] = []

    /// Places that are kept for those to come.
    @inlinable static var keptCapacity: Int { 1024 }

    @inlinable
    package init() {}

    @inlinable package var count: Int { leaving.count + arrived.count }

    @inlinable package var isEmpty: Bool { leaving.isEmpty && arrived.isEmpty }

    @inlinable package var first: Element? { leaving.last ?? arrived.first }

    /// All of them in their order.
    package var elements: [Element] { leaving.reversed() + arrived }

    @inlinable
    package mutating func append(_ element: Element) { arrived.append(element) }

    @inlinable
    package mutating func popFirst() -> Element? {
        if leaving.isEmpty {
            swap(&leaving, &arrived)
            leaving.reverse()
        }
        let element = leaving.popLast()
        if isEmpty {
            if leaving.capacity > Self.keptCapacity { leaving = [] }
            if arrived.capacity > Self.keptCapacity { arrived = [] }
        }
        return element
    }

    /// For how many elements it has memory.
    var capacity: Int { leaving.capacity + arrived.capacity }
}

extension Queue: Sendable where Element: Sendable {}
