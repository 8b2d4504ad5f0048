/// One field of a request or response (RFC 9110 section 5).
///
/// Server and client use this type. It does not check the characters. The code that writes a message checks them.
package struct HTTPField: Hashable, Sendable {
    package let name: String
    package let value: String

    package init(_ name: String, _ value: String) {
        self.name = name
        self.value = value
    }
}
