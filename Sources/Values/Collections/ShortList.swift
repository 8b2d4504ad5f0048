/// A list that usually has at most one element; a list of one element allocates no memory.
@usableFromInline
package struct ShortList<Element> {
    @usableFromInline var head: Element?
    /// All elements except the first.
    @usableFromInline var rest: [Element]

    @inlinable
    package init() {
        head = nil
        rest = []
    }

    @inlinable
    package init(_ element: Element) {
        head = element
        rest = []
    }
}

extension ShortList: RandomAccessCollection, MutableCollection, RangeReplaceableCollection {
    @inlinable package var startIndex: Int { 0 }
    @inlinable package var endIndex: Int { head == nil ? 0 : rest.count + 1 }

    // Functions of `Collection` are written by hand, because the standard library's versions are slower in other
    // modules.
    @inlinable package var count: Int { endIndex }
    @inlinable package var isEmpty: Bool { head == nil }
    @inlinable package var first: Element? { head }

    @inlinable
    package subscript(index: Int) -> Element {
        get {
            guard index == 0, let head else { return rest[index - 1] }
            return head
        }
        set { if index == 0, head != nil { head = newValue } else { rest[index - 1] = newValue } }
    }

    @inlinable
    package mutating func append(_ element: Element) {
        if head == nil { head = element } else { rest.append(element) }
    }

    @inlinable
    package mutating func insert(_ element: Element, at index: Int) {
        if index == endIndex { append(element) } else { replaceSubrange(index..<index, with: CollectionOfOne(element)) }
    }

    @inlinable
    package mutating func remove(at index: Int) -> Element {
        guard index == 0, let first = head else { return rest.remove(at: index - 1) }
        head = rest.isEmpty ? nil : rest.removeFirst()
        return first
    }

    /// Replaces the elements in `range`, slowly, because lists are rarely changed.
    @inlinable
    package mutating func replaceSubrange(_ range: Range<Int>, with elements: some Collection<Element>) {
        var all = Array(self)
        all.replaceSubrange(range, with: elements)
        head = all.first
        rest = Array(all.dropFirst())
    }
}

extension ShortList: Sendable where Element: Sendable {}
extension ShortList: Equatable where Element: Equatable {}
extension ShortList: Hashable where Element: Hashable {}
