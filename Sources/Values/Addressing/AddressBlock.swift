/// A block of addresses in CIDR notation, such as `10.0.0.0/8` or `2001:db8::/32`. A bare address is a block with one
/// address.
package struct AddressBlock: Hashable, Sendable, CustomStringConvertible {
    package let base: IPAddress
    /// How many leading bits of the 128-bit form all addresses of the block share. For an IPv4 `/8`, the prefix is 104.
    package let prefix: Int

    /// Reads `address[/length]`; `nil` if either part is not valid.
    package init?(_ text: some StringProtocol) {
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let first = parts.first, let address = IPAddress(first) else { return nil }
        let width = address.isV4 ? 32 : 128
        var length = width
        if parts.count == 2 {
            guard let given = Int(parts[1]), (0...width).contains(given) else { return nil }
            length = given
        }
        base = address
        prefix = 128 - width + length
    }

    package func contains(_ address: IPAddress) -> Bool {
        // An IPv6 block with a prefix shorter than /96 must not match IPv4 addresses, whose mapped form is only
        // internal.
        guard base.isV4 == address.isV4 else { return false }
        let highBits = min(prefix, 64)
        let lowBits = max(prefix - 64, 0)
        return Self.agree(base.high, address.high, bits: highBits) && Self.agree(base.low, address.low, bits: lowBits)
    }

    /// The block in CIDR notation. A single address is written without a length.
    package var description: String {
        let width = base.isV4 ? 32 : 128
        let length = prefix - (128 - width)
        return length == width ? base.description : "\(base)/\(length)"
    }

    private static func agree(_ left: UInt64, _ right: UInt64, bits: Int) -> Bool {
        bits == 0 || (left ^ right) >> UInt64(64 - bits) == 0
    }
}
