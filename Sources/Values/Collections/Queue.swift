/// A first-in first-out queue whose operations take constant time on average. Elements are appended to one array and
/// taken from the end of another. When the second array is empty, it gets the first array's elements in reverse order.
///
/// A taken element is released immediately. A long queue releases its memory when it becomes empty. The owner of a
/// queue limits the number of its elements.
@usableFromInline
package struct Queue<Element> {
    /// The elements that are taken next, in reverse order.
    @usableFromInline var leaving: [Element] = []
    /// The elements that are taken after the elements of `leaving`, in the order of their arrival.
    @usableFromInline var arrived: [Element] = []

    /// The number of elements for which an empty queue keeps memory.
    @inlinable static var keptCapacity: Int { 1024 }

    @inlinable
    package init() {}

    @inlinable package var count: Int { leaving.count + arrived.count }

    @inlinable package var isEmpty: Bool { leaving.isEmpty && arrived.isEmpty }

    @inlinable package var first: Element? { leaving.last ?? arrived.first }

    /// All elements, in the order in which they will be taken.
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

    /// The number of elements for which memory is reserved.
    var capacity: Int { leaving.capacity + arrived.capacity }
}

extension Queue: Sendable where Element: Sendable {}
