/// A text that is read from the settings but never printed, such as a password or a key.
///
/// The text of a secret can be read only by ``reveal()``, so that all uses of secrets can be found in the code.
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
