/// The sender whose limits apply to a request, independent of From: an authenticated user, or a user whom a trusted
/// peer names. If no user is known, the caller is the source address of the request.
///
/// A caller is a 64-bit hash, because each call and push stores its caller, and callers are often compared. A caller's
/// hash is the same in each run of the program, so that the store can store it. A hash table hashes the 64-bit value
/// once more, with a random seed.
package struct Caller: Hashable, Sendable {
    package let rawValue: UInt64

    package init(rawValue: UInt64) { self.rawValue = rawValue }

    package init(hash: UInt64, isTrusted: Bool) { rawValue = hash << 1 | (isTrusted ? 1 : 0) }

    /// Creates the caller for requests from a source address; all addresses in an IPv6 /64 are one caller.
    package init(_ address: IPAddress, isTrusted: Bool = false) {
        let source = address.source
        // Because of the odd factors, neighbouring addresses get very different hashes.
        let mixed = source.high &* 0x9e37_79b9_7f4a_7c15 ^ (source.low &+ 0x5bd1_e995) &* 0xbf58_476d_1ce4_e5b9
        self.init(hash: mixed ^ mixed >> 29, isTrusted: isTrusted)
    }

    /// Written by hand, because the compiler's own `==` is slower in other modules.
    @inlinable
    package static func == (left: Caller, right: Caller) -> Bool { left.rawValue == right.rawValue }

    /// Whether the caller is a trusted peer.
    package var isTrusted: Bool { rawValue & 1 == 1 }

    /// A 64-bit hash of the caller and the callee; `owner` is the hash of the callee.
    package func number(at owner: UInt64) -> UInt64 {
        let mixed = (owner &* 0x9e37_79b9_7f4a_7c15) ^ (rawValue &* 0xbf58_476d_1ce4_e5b9)
        return mixed ^ mixed >> 31
    }
}
