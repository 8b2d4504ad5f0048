/// Why a hash, a key or a signature could not be made. The description is a sentence on which an operator can act.
package struct CryptoError: Error, Hashable, CustomStringConvertible {
    package enum Code: Hashable, Sendable {
        /// The file or text contains no PEM private key, or an encrypted one.
        case unreadableKey
        /// The algorithm needs another kind of key.
        case unsuitableKey
        /// The salt or secret has the wrong length for the algorithm.
        case wrongLength
        /// The text does not fit in one message.
        case tooLong
        /// The text was not encrypted for this key and secret, was modified, or does not have the expected form.
        case undecryptable
        /// OpenSSL failed: memory or randomness is lacking, or a policy forbids the algorithm.
        case failed
    }

    package let code: Code
    /// A sentence for operators. It never contains key material.
    package let description: String

    init(_ code: Code, _ description: String) {
        self.code = code
        self.description = description
    }

    /// Makes an error from the failed operation and OpenSSL's own reason. It also empties OpenSSL's error queue.
    static func library(_ what: String) -> CryptoError {
        CryptoError(.failed, "\(what): \(TLSError.pendingReason()).")
    }
}
