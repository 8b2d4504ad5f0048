/// One page of a long list.
package struct Page<Element> {
    package let elements: [Element]
    /// Where the next page begins; `nil` on the last page.
    package let next: PageCursor?

    package init(_ elements: [Element], next: PageCursor?) {
        self.elements = elements
        self.next = next
    }
}

extension Page: Sendable where Element: Sendable {}

/// The position in a long list at which a page begins. A client sends the position back to get the page. Only the
/// list's owner can interpret the number in a cursor.
package struct PageCursor: Hashable, Sendable {
    package let number: UInt64

    package init(_ number: UInt64) { self.number = number }

    package static let beginning = PageCursor(0)
}
