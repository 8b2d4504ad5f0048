package import Bytes

/// A secret in a log line, shown as its first four characters and its length, such as `abcd…(64)`. A secret of fewer
/// than 16 bytes is shown only by its length.
package struct Redacted: Hashable, Sendable, CustomStringConvertible {
    package let description: String

    /// Makes the description of a secret, and does not store the secret itself.
    package init(_ secret: ByteString) {
        let start = secret.count >= 16 ? String(decoding: secret.array.prefix(4), as: UTF8.self) : ""
        description = "\(start)…(\(secret.count))"
    }

    /// Makes the description of a secret, and does not store the secret itself.
    package init(_ secret: String) { self.init(ByteString(secret)) }
}
