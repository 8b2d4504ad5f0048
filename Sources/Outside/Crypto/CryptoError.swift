/// The reason why a hash, a key or a signature could not be made. The error's description is a sentence that tells an
/// operator what to do.
package struct CryptoError: Error, Hashable, CustomStringConvertible {
    package enum Code: Hashable, Sendable {
        /// The file or text contains no PEM private key, or the key is encrypted.
        case unreadableKey
        /// The algorithm cannot use this kind of key.
        case unsuitableKey
        /// The salt, secret or key has a length that the algorithm does not allow.
        case wrongLength
        /// The text is too long to be encrypted as one message.
        case tooLong
        /// The text cannot be decrypted: it is malformed, was modified, or was encrypted for another key or secret.
        case undecryptable
        /// OpenSSL failed: memory or randomness is lacking, or a policy forbids the algorithm.
        case failed
    }

    package let code: Code
    /// A sentence about the error, for operators. The description never contains key material.
    package let description: String

    init(_ code: Code, _ description: String) {
        self.code = code
        self.description = description
    }

    /// Makes an error from the name of the failed operation and OpenSSL's own reason, and empties OpenSSL's error
    /// queue.
    static func library(_ what: String) -> CryptoError {
        CryptoError(.failed, "\(what): \(TLSError.pendingReason()).")
    }
}
