/// A list that keeps its elements in the order of their arrival. Finding the oldest element, and removing any element,
/// takes constant time.
///
/// An element is identified by its place, an index into the list's storage. After an element was removed, its place can
/// be used for another element.
package struct AgeList<Element> {
    fileprivate struct Node {
        var element: Element?
        var older: Int32
        /// The index of the next younger node, or of the next free node.
        var younger: Int32

        init(_ element: Element, older: Int32) {
            self.element = element
            self.older = older
            younger = -1
        }
    }

    /// The index of an element in the list's storage, valid until the element is removed.
    package struct Place: Hashable, Sendable {
        fileprivate let index: Int32
    }

    private var nodes: [Node] = []
    private var free: Int32 = -1
    private var first: Int32 = -1
    private var last: Int32 = -1
    package private(set) var count = 0

    package init() {}

    package var isEmpty: Bool { count == 0 }

    package var oldest: Element? { first < 0 ? nil : nodes[Int(first)].element }

    /// Adds an element, which becomes the youngest.
    package mutating func append(_ element: Element) -> Place {
        let node = Node(element, older: last)
        let index: Int32
        if free >= 0 {
            index = free
            free = nodes[Int(index)].younger
            nodes[Int(index)] = node
        } else {
            precondition(nodes.count < Int32.max, "the owner limits its elements")
            index = Int32(nodes.count)
            nodes.append(node)
        }
        if last >= 0 { nodes[Int(last)].younger = index } else { first = index }
        last = index
        count += 1
        return Place(index: index)
    }

    /// Removes the element at a place. Precondition: the list has an element at the place.
    package mutating func remove(_ place: Place) {
        let index = Int(place.index)
        precondition(nodes[index].element != nil, "an element leaves once")
        let (older, younger) = (nodes[index].older, nodes[index].younger)
        if older >= 0 { nodes[Int(older)].younger = younger } else { first = younger }
        if younger >= 0 { nodes[Int(younger)].older = older } else { last = older }
        nodes[index].element = nil
        nodes[index].younger = free
        free = place.index
        count -= 1
        if count == 0 {
            // If the list has become empty, it releases its memory, because it may have been long.
            nodes = []
            free = -1
        }
    }
}

extension AgeList: Sendable where Element: Sendable {}
extension AgeList.Node: Sendable where Element: Sendable {}
