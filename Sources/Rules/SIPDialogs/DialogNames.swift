package import Bytes
import Registration
package import SIPGrammar
package import SIPTransactions

/// The names of the two sides when their dialog was made, for each side that is a phone (T20.7). They are hashes of
/// the URIs, and of the display names that the caller gave to itself and to the callee.
///
/// The key of the hashes is in the same sealed token, so nobody can search for two names with the same hash.
package struct DialogNames: Hashable, Sendable {
    /// A key of 24 bits.
    package let key: UInt32
    /// `nil` for a side that may change its name, such as a trusted peer (RFC 4916).
    package let caller: Caller?
    package let callee: Callee?

    package struct Callee: Hashable, Sendable {
        /// Hashes of 24 bits. `name` is the display name that the caller wrote into To, or zero if To had none. In
        /// tokens of older versions, which lack the name, `name` is `nil`.
        package let uri: UInt32
        package let name: UInt32?

        package init(uri: UInt32, name: UInt32?) {
            self.uri = uri
            self.name = name
        }
    }

    package struct Caller: Hashable, Sendable {
        /// Hashes of 24 bits. `name` is zero if the caller gave no display name.
        package let uri, name: UInt32

        package init(uri: UInt32, name: UInt32) {
            self.uri = uri
            self.name = name
        }
    }

    package init(key: UInt32, caller: Caller?, callee: Callee?) {
        self.key = key
        self.caller = caller
        self.callee = callee
    }

    /// Hashes the names in a request that makes a dialog.
    ///
    /// - Parameters:
    ///   - request: the request, with the names in From and To.
    ///   - secret: a key that nobody else knows.
    ///   - holdsCaller: whether the caller is a phone, which must keep its name.
    ///   - holdsCallee: whether the callee is a phone, which must keep its name.
    package init(of request: SIPRequest, _ secret: BranchKey, holdsCaller: Bool, holdsCallee: Bool) {
        var callID = FNV1a()
        callID.mix(request.callID)
        var tag = FNV1a()
        tag.mix(request.from.tag ?? .empty)
        let key = UInt32(truncatingIfNeeded: secret.hash(callID.value, tag.value) >> 40)
        self.key = key
        caller =
            holdsCaller
            ? Caller(uri: Self.hash(request.from.uri, key), name: Self.hash(request.from.displayName, key)) : nil
        callee =
            holdsCallee
            ? Callee(uri: Self.hash(request.to.uri, key), name: Self.hash(request.to.displayName, key)) : nil
    }

    /// Whether a phone may write this From in a request inside the dialog.
    ///
    /// A caller may omit its display name, but not change it. The callee's display name is not checked here, but in
    /// ``isForeign(_:)``.
    package func admits(_ from: NameAddress, ofCaller isCaller: Bool) -> Bool {
        guard isCaller else { return callee.map { $0.uri == Self.hash(from.uri, key) } ?? true }
        guard let caller else { return true }
        let name = Self.hash(from.displayName, key)
        return caller.uri == Self.hash(from.uri, key) && (name == 0 || name == caller.name)
    }

    /// Whether the callee writes a display name that the caller has not used for it. The caller has not seen this
    /// name, and its phone would show the name from then on (RFC 4916).
    ///
    /// This is no reason to refuse the request, because some phones (JsSIP) always write their own name.
    package func isForeign(_ name: ByteString?) -> Bool {
        guard let known = callee?.name else { return false }
        let said = Self.hash(name, key)
        return said != 0 && said != known
    }

    // MARK: Hashes

    /// Hashes user and host, so that all spellings of one user are equal. For other schemes, hashes the URI before
    /// its parameters.
    private static func hash(_ uri: SIPURI, _ key: UInt32) -> UInt32 {
        var hash = NameHash(key)
        switch uri.scheme {
        case .sip, .sips:
            hash.mix((uri.user ?? .empty).percentDecoded())
            hash.mix(uri.host.lowercased())
        case .tel, .other: hash.mix(uri.address.lowercased())
        }
        return hash.value
    }

    /// Hashes a display name without its quotes. The hash is zero without a name.
    private static func hash(_ name: ByteString?, _ key: UInt32) -> UInt32 {
        guard let text = name?.unquoted().trimmed(), !text.isEmpty else { return 0 }
        var hash = NameHash(key)
        hash.mix(text)
        return max(hash.value, 1)
    }

    private struct NameHash {
        private var hash: KeyedHash

        init(_ key: UInt32) { hash = KeyedHash(BranchKey(UInt64(key), 0x6469_616c_6f67)) }

        mutating func mix(_ text: ByteString) {
            var hash = hash
            text.withSpan { $0.forEachWord { hash.mix($0) } }
            hash.mix(UInt64(text.count) | 1 << 63)
            self.hash = hash
        }

        var value: UInt32 { UInt32(truncatingIfNeeded: hash.value >> 40) }
    }
}
