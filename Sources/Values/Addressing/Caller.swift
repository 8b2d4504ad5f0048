/// The party that is accountable for a request, regardless of its From. It is an authenticated user, or the user that a
/// trusted peer names. Without authentication it is the source address.
///
/// A caller is a number, because it is compared and stored for each call and each push. The number is the same in each
/// run of the program, so that it can be persisted. Tables hash it again with a seed.
package struct Caller: Hashable, Sendable {
    package let rawValue: UInt64

    package init(rawValue: UInt64) { self.rawValue = rawValue }

    package init(hash: UInt64, isTrusted: Bool) { rawValue = hash << 1 | (isTrusted ? 1 : 0) }

    /// The caller for requests from this address. All addresses of an IPv6 /64 are one caller.
    package init(_ address: IPAddress, isTrusted: Bool = false) {
        let source = address.source
        // The multiplication by odd constants gives distant numbers to neighbouring addresses.
        let mixed = source.high &* 0x9e37_79b9_7f4a_7c15 ^ (source.low &+ 0x5bd1_e995) &* 0xbf58_476d_1ce4_e5b9
        self.init(hash: mixed ^ mixed >> 29, isTrusted: isTrusted)
    }

    /// Written by hand, because the synthesized version uses a witness table in other modules.
    @inlinable
    package static func == (left: Caller, right: Caller) -> Bool { left.rawValue == right.rawValue }

    /// Whether a trusted peer sent the request.
    package var isTrusted: Bool { rawValue & 1 == 1 }

    /// A number for the pair of this caller and a callee. `owner` is the callee's number.
    package func number(at owner: UInt64) -> UInt64 {
        let mixed = (owner &* 0x9e37_79b9_7f4a_7c15) ^ (rawValue &* 0xbf58_476d_1ce4_e5b9)
        return mixed ^ mixed >> 31
    }
}
