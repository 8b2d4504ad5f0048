/// A text from the settings that is never printed, such as a password or a key.
///
/// Only ``reveal()`` returns the text of a secret, so that all uses can be found in the code.
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
