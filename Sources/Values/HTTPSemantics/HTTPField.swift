/// One field of an HTTP request or response (RFC 9110 section 5).
///
/// Both HTTP server and HTTP client use this type. The initializer does not check the characters; the code that writes
/// a message checks them.
package struct HTTPField: Hashable, Sendable {
    package let name: String
    package let value: String

    package init(_ name: String, _ value: String) {
        self.name = name
        self.value = value
    }
}
