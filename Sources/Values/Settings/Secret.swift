/// Text that is read but never printed: passwords, keys.
///
/// Only ``reveal()`` gives it out, so that the places which use a secret can be found.
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
