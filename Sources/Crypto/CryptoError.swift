/// Why a hash, a key or a signature could not be made, as a sentence an operator can act on.
package struct CryptoError: Error, Hashable, CustomStringConvertible {
    package enum Code: Hashable, Sendable {
        /// The file or text holds no PEM private key, or an encrypted one.
        case unreadableKey
        /// A key, but of another kind than the signature needs.
        case unsuitableKey
        /// A salt or secret of another length than the algorithm takes.
        case wrongLength
        /// More than fits in one message.
        case tooLong
        /// Not encrypted for this key and secret, changed on its way, or in another form.
        case undecryptable
        /// OpenSSL could not do it: memory, randomness, or an algorithm that policy forbids.
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
