/// One page of a long list.
package struct Page<Element> {
    package let elements: [Element]
    /// The position at which the next page begins; `nil` on the last page.
    package let next: PageCursor?

    package init(_ elements: [Element], next: PageCursor?) {
        self.elements = elements
        self.next = next
    }
}

extension Page: Sendable where Element: Sendable {}

/// The position in a long list at which a page begins. A client sends the cursor back to get the next page. Only the
/// code that owns the list can interpret the number in a cursor.
package struct PageCursor: Hashable, Sendable {
    package let number: UInt64

    package init(_ number: UInt64) { self.number = number }

    package static let beginning = PageCursor(0)
}
