import Bytes
import Registration
import SIPGrammar
import SIPTransactions

/// Who the two sides of a dialog were at its beginning, as far as they are phones: hashes of their URIs, and of the names that the
/// caller gave to itself and to the one who is called (T20.7).
///
/// Their key stands beside them in the sealed token, so that nobody can look for two names with one hash.
package struct DialogNames: Hashable, Sendable {
    /// 24 bits.
    package let key: UInt32
    /// `nil` for a side that may change its name, as a trusted peer may (RFC 4916).
    package let caller: Caller?
    package let callee: Callee?

    package struct Callee: Hashable, Sendable {
        /// 24 bits each. The name is what the caller wrote into To, and zero when there was none; `nil` in tokens of builds that
        /// did not write it.
        let uri: UInt32
        let name: UInt32?

        package init(uri: UInt32, name: UInt32?) {
            self.uri = uri
            self.name = name
        }
    }

    package struct Caller: Hashable, Sendable {
        /// 24 bits each. The name is zero when there was none.
        let uri, name: UInt32

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

    /// Of the request that makes the dialog.
    ///
    /// - Parameters:
    ///   - request: its From and To are the names.
    ///   - secret: what nobody else knows.
    ///   - holdsCaller: whether the caller is a phone.
    ///   - holdsCallee: whether the called one is.
    init(of request: SIPRequest, _ secret: BranchKey, holdsCaller: Bool, holdsCallee: Bool) {
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

    /// Whether a phone may write that From in a request inside the dialog.
    ///
    /// A caller may leave its display name out, and not change it. That of the one who is called is not looked at here: see
    /// ``isForeign(_:)``.
    func admits(_ from: NameAddress, ofCaller isCaller: Bool) -> Bool {
        guard isCaller else { return callee.map { $0.uri == Self.hash(from.uri, key) } ?? true }
        guard let caller else { return true }
        let name = Self.hash(from.displayName, key)
        return caller.uri == Self.hash(from.uri, key) && (name == 0 || name == caller.name)
    }

    /// Whether the phone that was called writes a display name that the caller has not used for it. The other side has seen no
    /// such name, and would show it from then on (RFC 4916).
    ///
    /// It is no reason to refuse the request: some phones (JsSIP) write their own name from then on.
    func isForeign(_ name: ByteString?) -> Bool {
        guard let known = callee?.name else { return false }
        let said = Self.hash(name, key)
        return said != 0 && said != known
    }

    // MARK: Hashes

    /// User and host; of a URI that is not SIP's all before its parameters. Spellings of one user are one.
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

    /// Without its quotes; zero for none.
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
