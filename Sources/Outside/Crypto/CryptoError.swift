/// Why a hash, a key or a signature could not be made, as a sentence on which an operator can act.
package struct CryptoError: Error, Hashable, CustomStringConvertible {
    package enum Code: Hashable, Sendable {
        /// The file or text contains no PEM private key, or an encrypted one.
        case unreadableKey
        /// The signature needs another kind of key.
        case unsuitableKey
        /// The salt or secret has the wrong length for the algorithm.
        case wrongLength
        /// The text does not fit in one message.
        case tooLong
        /// The text was not encrypted for this key and secret, was modified, or has another form.
        case undecryptable
        /// OpenSSL failed, for lack of memory or randomness, or because a policy forbids the algorithm.
        case failed
    }

    package let code: Code
    /// Never contains key material.
    package let description: String

    init(_ code: Code, _ description: String) {
        self.code = code
        self.description = description
    }

    /// The failed operation, with OpenSSL's own reason. Empties its error queue.
    static func library(_ what: String) -> CryptoError {
        CryptoError(.failed, "\(what): \(TLSError.pendingReason()).")
    }
}
