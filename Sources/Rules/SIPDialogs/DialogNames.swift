package import Bytes
import Registration
package import SIPGrammar
package import SIPTransactions

/// The names of a dialog's phones at the start of the dialog (T20.7).
///
/// The names in a dialog are the hashes of both sides' URIs and of the display names that the caller gave to both
/// sides. No peer can search for two names with the same hash, because the hash key is in the encrypted dialog token.
package struct DialogNames: Hashable, Sendable {
    /// The key of the name hashes; the key has 24 bits.
    package let key: UInt32
    /// The caller's name; `nil` if the caller may change its name, as a trusted peer may (RFC 4916).
    package let caller: Caller?
    package let callee: Callee?

    package struct Callee: Hashable, Sendable {
        /// A hash of the callee's URI and a hash of its name, 24 bits each.
        ///
        /// The hash `name` is made from the display name in To: zero without display name, `nil` in tokens of older
        /// versions.
        package let uri: UInt32
        package let name: UInt32?

        package init(uri: UInt32, name: UInt32?) {
            self.uri = uri
            self.name = name
        }
    }

    package struct Caller: Hashable, Sendable {
        /// A hash of the caller's URI and a hash of its display name, 24 bits each.
        ///
        /// The hash `name` is zero if the caller gave no display name.
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

    /// Hashes the names in From and To of a request that begins a dialog, for each phone that must keep its name.
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

    /// Whether a phone may use the From `from` in a request inside the dialog.
    ///
    /// A caller may omit its display name, but must not change it. ``isForeign(_:)`` checks a callee's display name.
    package func admits(_ from: NameAddress, ofCaller isCaller: Bool) -> Bool {
        guard isCaller else { return callee.map { $0.uri == Self.hash(from.uri, key) } ?? true }
        guard let caller else { return true }
        let name = Self.hash(from.displayName, key)
        return caller.uri == Self.hash(from.uri, key) && (name == 0 || name == caller.name)
    }

    /// Whether the callee's display name differs from the name that the caller wrote into To.
    ///
    /// The caller's phone would show a changed display name (RFC 4916). The daemon does not refuse a changed display
    /// name, because some phones (JsSIP) always write their own name.
    package func isForeign(_ name: ByteString?) -> Bool {
        guard let known = callee?.name else { return false }
        let said = Self.hash(name, key)
        return said != 0 && said != known
    }

    // MARK: Hashes

    /// A hash of a URI's user and host; all spellings of one user have the same hash.
    ///
    /// The hash of a URI other than sip, sips and tel omits the parameters.
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

    /// A hash of a display name without quotes; zero without a display name.
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
