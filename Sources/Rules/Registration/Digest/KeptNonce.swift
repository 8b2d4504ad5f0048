import Bytes

/// The nonce that a binding keeps for as long as its phone uses it, and how far the nonce is used up (T39).
///
/// A phone that wakes answers this nonce in its first REGISTER, and is not challenged again. A binding keeps only 64 bits
/// of the nonce, which nobody can foresee. The nonce needs no secret key, so it is valid after a restart.
package struct KeptNonce: Hashable, Sendable {
    /// The name of the nonce; 0 if the binding keeps no nonce.
    package let name: UInt64
    /// The highest nonce count that a REGISTER has used.
    package let count: UInt32
    /// The nonce count in the store, which is at least ``count``. After a restart the nonce is used up to here.
    package let stored: UInt32

    package init(name: UInt64, count: UInt32, stored: UInt32) {
        self.name = name
        self.count = count
        self.stored = stored
    }

    package static let none = KeptNonce(name: 0, count: 0, stored: 0)

    /// Refreshes on an open connection need not wait for the disk, because the store has a higher count than the one
    /// that is used. Only every thirty-second refresh waits.
    static let countsAhead: UInt32 = 32

    /// The change that a REGISTER with the nonce `use` makes.
    enum Change: Hashable, Sendable {
        /// The nonce is not the nonce of this binding, or the nonce count was used before. The phone needs a challenge.
        case refused
        case unchanged
        /// The binding keeps this nonce now. The store need not know it.
        case counted(KeptNonce)
        /// The binding keeps this nonce when the store has it.
        case stored(KeptNonce)
    }

    /// Decides what a REGISTER that refreshes only this binding does to its nonce.
    ///
    /// The binding and its row in the store always have the same nonce, and the store never has a lower count. So no
    /// credentials are valid twice, not even after `kill -9`.
    ///
    /// - Parameters:
    ///   - use: the nonce of the REGISTER, and its count.
    ///   - isWritten: whether the store writes the binding's row before the 200 anyway.
    /// - Returns: the nonce that the binding keeps, and whether the store must have it before the 200.
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
        // A client that shows no nonce in its first request gets a new one each time, which is not worth a write.
        guard isWritten || use.isReused else { return .unchanged }
        if let next = use.next { return .stored(KeptNonce(name: next.name, count: 0, stored: 0)) }
        return .stored(KeptNonce(name: use.name, count: use.count, stored: use.count))
    }
}

/// The nonce and nonce count that a REGISTER has used.
package struct NonceUse: Hashable, Sendable {
    package enum Origin: Hashable, Sendable {
        /// The daemon sent the nonce in a challenge, to the address of the REGISTER.
        case challenge
        /// The daemon sent the nonce in a push.
        case push
        /// A binding keeps the nonce.
        case binding
    }

    /// A nonce for the next REGISTER.
    struct Next: Hashable, Sendable {
        let name: UInt64
        let text: ByteString
    }

    package let origin: Origin
    let name: UInt64
    /// The nonce count; the highest number if the client sent none, because it may use the nonce only once.
    let count: UInt32
    /// Whether the client uses a nonce again.
    let isReused: Bool
    /// The next nonce for a client that sent no qop and no nonce count.
    let next: Next?

    package init(origin: Origin, name: UInt64, count: UInt32, isReused: Bool) {
        self.init(origin: origin, name: name, count: count, isReused: isReused, next: nil)
    }

    /// This use, with a nonce for the next REGISTER.
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
