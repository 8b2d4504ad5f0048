/// Part of a long list.
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

/// A place in a long list. Clients send it back to get the next page. Only the owner of the list knows what the number
/// means.
package struct PageCursor: Hashable, Sendable {
    package let number: UInt64

    package init(_ number: UInt64) { self.number = number }

    package static let beginning = PageCursor(0)
}
