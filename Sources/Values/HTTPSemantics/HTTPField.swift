/// One field of an HTTP request or response (RFC 9110 section 5).
///
/// The field accepts any characters, because the code that writes the message checks them.
package struct HTTPField: Hashable, Sendable {
    package let name: String
    package let value: String

    package init(_ name: String, _ value: String) {
        self.name = name
        self.value = value
    }
}
