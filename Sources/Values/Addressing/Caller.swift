/// Who answers for what comes, whatever its From says: a user who has shown a password, whom a trusted peer names, or where
/// nobody has to prove anything the address.
///
/// A number, since it is compared and kept for each call and each push. It is the same in each run of the program, so that it
/// can be stored. Tables hash it once more, with a seed.
package struct Caller: Hashable, Sendable {
    package let rawValue: UInt64

    package init(rawValue: UInt64) { self.rawValue = rawValue }

    package init(hash: UInt64, isTrusted: Bool) { rawValue = hash << 1 | (isTrusted ? 1 : 0) }

    /// Whoever sends from that address: of an IPv6 address the /64.
    package init(_ address: IPAddress, isTrusted: Bool = false) {
        let source = address.source
        // Multiplied by odd constants, so that addresses beside each other are far from each other.
        let mixed = source.high &* 0x9e37_79b9_7f4a_7c15 ^ (source.low &+ 0x5bd1_e995) &* 0xbf58_476d_1ce4_e5b9
        self.init(hash: mixed ^ mixed >> 29, isTrusted: isTrusted)
    }

    /// Written out, since what Swift makes of it for other modules goes through a table of witnesses.
    @inlinable
    package static func == (left: Caller, right: Caller) -> Bool { left.rawValue == right.rawValue }

    /// A trusted peer has brought it.
    package var isTrusted: Bool { rawValue & 1 == 1 }

    /// Stands for this caller at something that belongs to one who is called.
    package func number(at owner: UInt64) -> UInt64 {
        let mixed = (owner &* 0x9e37_79b9_7f4a_7c15) ^ (rawValue &* 0xbf58_476d_1ce4_e5b9)
        return mixed ^ mixed >> 31
    }
}
