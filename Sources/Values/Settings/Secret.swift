/// Text that is read but never printed: passwords, keys.
///
/// Only ``reveal()`` returns it, so that the uses of a secret can be found.
package struct Secret: Hashable, Sendable {
    private let text: String

    package init(_ text: String) { self.text = text }

    package func reveal() -> String { text }

}

extension Secret: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String { "(secret)" }
    package var debugDescription: String { "(secret)" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}
