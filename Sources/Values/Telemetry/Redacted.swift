package import Bytes

/// A secret in a log line: its first four characters and its length, `abcd…(64)`; for a short one only the length.
package struct Redacted: Hashable, Sendable, CustomStringConvertible {
    package let description: String

    /// The secret itself is not kept.
    package init(_ secret: ByteString) {
        let start = secret.count >= 16 ? String(decoding: secret.array.prefix(4), as: UTF8.self) : ""
        description = "\(start)…(\(secret.count))"
    }

    /// The secret itself is not kept.
    package init(_ secret: String) { self.init(ByteString(secret)) }
}
