/// A block of addresses, written in CIDR notation, such as `10.0.0.0/8` or `2001:db8::/32`. A text without a prefix
/// length gives a block of one address.
package struct AddressBlock: Hashable, Sendable, CustomStringConvertible {
    package let base: IPAddress
    /// The number of leading bits that all addresses of the block share, of the 128 bits of an `IPAddress`. The prefix
    /// of an IPv4 `/8` is 104 bits, because of the IPv4-mapped form.
    package let prefix: Int

    /// Reads a block from text in the form `address[/length]`; `nil` for another form.
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
        // An IPv6 block with a prefix below /96 must not match IPv4 addresses, which are stored in the IPv4-mapped
        // form.
        guard base.isV4 == address.isV4 else { return false }
        let highBits = min(prefix, 64)
        let lowBits = max(prefix - 64, 0)
        return Self.agree(base.high, address.high, bits: highBits) && Self.agree(base.low, address.low, bits: lowBits)
    }

    /// The block in CIDR notation; a block of one address has no length.
    package var description: String {
        let width = base.isV4 ? 32 : 128
        let length = prefix - (128 - width)
        return length == width ? base.description : "\(base)/\(length)"
    }

    private static func agree(_ left: UInt64, _ right: UInt64, bits: Int) -> Bool {
        bits == 0 || (left ^ right) >> UInt64(64 - bits) == 0
    }
}
