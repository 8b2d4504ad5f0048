/// Why a hash, a key or a signature could not be made, as a sentence an operator can act on.
package struct CryptoError: Error, Hashable, CustomStringConvertible {
    package enum Code: Hashable, Sendable {
        /// The file or text holds no PEM private key, or an encrypted one.
        case unreadableKey
        /// The key is of another kind than the signature needs.
        case unsuitableKey
        /// The salt or secret has another length than the algorithm takes.
        case wrongLength
        /// The text does not fit in one message.
        case tooLong
        /// The text was not encrypted for this key and secret, was changed on its way, or has another form.
        case undecryptable
        /// OpenSSL failed, for lack of memory or randomness, or because a policy forbids the algorithm.
        case failed
    }

    package let code: Code
    /// Never holds key material.
    package let description: String

    init(_ code: Code, _ description: String) {
        self.code = code
        self.description = description
    }

    /// What failed, with OpenSSL's own reason; empties its error queue.
    static func library(_ what: String) -> CryptoError {
        CryptoError(.failed, "\(what): \(TLSError.pendingReason()).")
    }
}
