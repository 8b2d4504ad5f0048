package import Bytes

/// A secret in a log line: its first four characters and its length, such as `abcd…(64)`. For a short secret only the
/// length is shown.
package struct Redacted: Hashable, Sendable, CustomStringConvertible {
    package let description: String

    /// Makes the description. The secret itself is not kept.
    package init(_ secret: ByteString) {
        let start = secret.count >= 16 ? String(decoding: secret.array.prefix(4), as: UTF8.self) : ""
        description = "\(start)…(\(secret.count))"
    }

    /// The secret itself is not kept.
    package init(_ secret: String) { self.init(ByteString(secret)) }
}
