import Bytes

/// The nonce that a binding keeps while its phone uses the nonce, with the used nonce count (T39).
///
/// A woken phone uses the kept nonce in its first REGISTER, which then needs no challenge. A binding keeps only 64
/// unpredictable bits of the nonce. The daemon recognises a kept nonce without a secret key, so the nonce is valid even
/// after a restart.
package struct KeptNonce: Hashable, Sendable {
    /// The number that identifies the nonce: 64 bits of the nonce's code; 0 if the binding keeps no nonce.
    package let name: UInt64
    /// The highest nonce count that a REGISTER has used.
    package let count: UInt32
    /// The nonce count in the store; it is at least ``count``. After a restart, a kept nonce is accepted only with a
    /// nonce count above the stored count.
    package let stored: UInt32

    package init(name: UInt64, count: UInt32, stored: UInt32) {
        self.name = name
        self.count = count
        self.stored = stored
    }

    package static let none = KeptNonce(name: 0, count: 0, stored: 0)

    /// How far the stored nonce count is ahead of the used count. With a lead of 32 nonce counts, only every 32nd
    /// refresh on an open connection waits for the disk.
    static let countsAhead: UInt32 = 32

    /// The change of a binding's kept nonce by a REGISTER.
    enum Change: Hashable, Sendable {
        /// The REGISTER gets a challenge, because the binding does not keep the nonce, or the nonce count was used
        /// before.
        case refused
        case unchanged
        /// The binding keeps the given nonce and count now, and the store need not write them.
        case counted(KeptNonce)
        /// The binding keeps the given nonce and count as soon as the store has written both.
        case stored(KeptNonce)
    }

    /// Decides what a REGISTER that refreshes only one binding does to the binding's kept nonce.
    ///
    /// The binding and its stored row always have the same nonce, and the stored count is never lower. No credentials
    /// are valid twice, not even after the daemon was killed by `kill -9`.
    ///
    /// - Parameters:
    ///   - use: the nonce and the nonce count of the REGISTER.
    ///   - isWritten: whether the store writes the binding's row before the 200 anyway.
    /// - Returns: the kept nonce, and whether the store must write the nonce before the 200.
    func change(by use: NonceUse, isWritten: Bool) -> Change {
        if name == use.name, name != 0 {
            guard use.count > count else { return use.origin == .binding ? .refused : .unchanged }
            if let next = use.next { return .stored(KeptNonce(name: next.name, count: 0, stored: 0)) }
            if isWritten { return .stored(KeptNonce(name: name, count: use.count, stored: use.count)) }
            if use.count <= stored { return .counted(KeptNonce(name: name, count: use.count, stored: stored)) }
            let ahead = use.count.addingReportingOverflow(Self.countsAhead)
            return .stored(KeptNonce(name: name, count: use.count, stored: ahead.overflow ? .max : ahead.partialValue))
        }
        if use.origin == .binding { return .refused }
        // The nonce of a client that never reuses a nonce is not written.
        guard isWritten || use.isReused else { return .unchanged }
        if let next = use.next { return .stored(KeptNonce(name: next.name, count: 0, stored: 0)) }
        return .stored(KeptNonce(name: use.name, count: use.count, stored: use.count))
    }
}

/// The nonce and the nonce count in the credentials of a REGISTER, and how the client got the nonce.
package struct NonceUse: Hashable, Sendable {
    package enum Origin: Hashable, Sendable {
        /// The daemon sent the nonce in a challenge to the address of the REGISTER.
        case challenge
        /// The daemon sent the nonce in a push.
        case push
        /// The nonce is older than its lifetime, but a binding of the user keeps the nonce.
        case binding
    }

    /// A nonce in the 200 for the client's next REGISTER.
    struct Next: Hashable, Sendable {
        let name: UInt64
        let text: ByteString
    }

    package let origin: Origin
    package let name: UInt64
    /// The nonce count. If a client sends no nonce count, the value is the highest possible number, because the client
    /// may use the nonce only once.
    let count: UInt32
    /// Whether the client uses its nonces in later requests too.
    let isReused: Bool
    /// The nonce for the next REGISTER of a client without qop; such a client can use each nonce only once.
    let next: Next?

    package init(origin: Origin, name: UInt64, count: UInt32, isReused: Bool) {
        self.init(origin: origin, name: name, count: count, isReused: isReused, next: nil)
    }

    /// Returns a copy that also contains a nonce for the client's next REGISTER.
    func followed(by nonce: Nonce.NonceText) -> NonceUse {
        NonceUse(
            origin: origin, name: name, count: count, isReused: isReused,
            next: Next(name: nonce.name, text: nonce.text))
    }

    private init(origin: Origin, name: UInt64, count: UInt32, isReused: Bool, next: Next?) {
        self.origin = origin
        self.name = name
        self.count = count
        self.isReused = isReused
        self.next = next
    }
}
