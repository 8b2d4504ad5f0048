/// Why a hash, a key, a signature or an encryption failed.
package struct CryptoError: Error, Hashable, CustomStringConvertible {
    package enum Code: Hashable, Sendable {
        /// The file or text contains no PEM private key, or the key is encrypted.
        case unreadableKey
        /// The algorithm cannot use the given kind of key.
        case unsuitableKey
        /// The salt, secret or key of a web push has a length that the algorithm does not allow.
        case wrongLength
        /// The text that must be encrypted is too long for one message.
        case tooLong
        /// The text cannot be decrypted: it is malformed, was modified, or was encrypted for another key or secret.
        case undecryptable
        /// OpenSSL failed: memory or randomness is lacking, or a policy forbids the algorithm.
        case failed
    }

    package let code: Code
    /// A sentence that tells operators what to do, and contains no key material.
    package let description: String

    init(_ code: Code, _ description: String) {
        self.code = code
        self.description = description
    }

    /// Creates an error with the name of the failed operation and OpenSSL's reason, and empties OpenSSL's error queue.
    static func library(_ what: String) -> CryptoError {
        CryptoError(.failed, "\(what): \(TLSError.pendingReason()).")
    }
}
