/// A first-in first-out queue with constant average time. It consists of two stacks: when the stack for taking is
/// empty, it is refilled with the reversed other one.
///
/// A taken element is released immediately, and a long queue releases its memory when it is empty. The owner limits the
/// number of elements.
@usableFromInline
package struct Queue<Element> {
    /// The elements that leave next, in reverse order.
    @usableFromInline var leaving: [Element] = []
    /// The elements that leave after those, in their order.
    @usableFromInline var arrived: [Element] = []

    /// For how many elements memory is kept when the queue is empty.
    @inlinable static var keptCapacity: Int { 1024 }

    @inlinable
    package init() {}

    @inlinable package var count: Int { leaving.count + arrived.count }

    @inlinable package var isEmpty: Bool { leaving.isEmpty && arrived.isEmpty }

    @inlinable package var first: Element? { leaving.last ?? arrived.first }

    /// All elements in their order.
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
