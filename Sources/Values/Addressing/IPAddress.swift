import Bytes

/// An IPv4 or IPv6 address, stored as 128 bits. An IPv4 address is stored in the IPv4-mapped form (`::ffff:a.b.c.d`).
package struct IPAddress: Hashable, Sendable {
    /// The upper 64 bits of the address as a number; 0 for IPv4.
    package let high: UInt64
    /// The lower 64 bits of the address as a number; `0x0000ffff_aabbccdd` for IPv4.
    package let low: UInt64

    @inlinable
    package static func == (left: IPAddress, right: IPAddress) -> Bool {
        left.low == right.low && left.high == right.high
    }

    package init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// Creates an IPv4 address from its four octets; the first octet is the most significant byte of `bits`.
    package init(v4 bits: UInt32) {
        high = 0
        low = 0xffff_0000_0000 | UInt64(bits)
    }

    package var isV4: Bool { high == 0 && low >> 32 == 0xffff }

    /// The four octets of an IPv4 address, first octet in the most significant byte; meaningless for IPv6.
    package var v4Bits: UInt32 { UInt32(truncatingIfNeeded: low) }

    package var isLoopback: Bool { isV4 ? v4Bits >> 24 == 127 : high == 0 && low == 1 }

    package var isUnspecified: Bool { isV4 ? v4Bits == 0 : high == 0 && low == 0 }

    /// The part of the address to which limits per source apply: an IPv4 address, or the /64 of an IPv6 address. A /64
    /// is one source, because one peer usually has all its addresses.
    package var source: IPAddress { isV4 ? self : IPAddress(high: high, low: 0) }

    package static let anyV4 = IPAddress(v4: 0)
    package static let loopbackV4 = IPAddress(v4: 0x7f00_0001)
}

// MARK: Text

extension IPAddress: CustomStringConvertible {
    /// Reads an address from text: dotted IPv4, or IPv6 in the form of RFC 4291. An IPv6 address may be in brackets, as
    /// in a URI.
    ///
    /// IPv6 zone identifiers, and IPv4 addresses with fewer than four numbers, are refused.
    package init?(_ text: some StringProtocol) {
        let bytes = Array(text.utf8)
        self.init(ascii: bytes.span)
    }

    package init?(ascii: Span<UInt8>) {
        var start = 0
        var end = ascii.count
        if end >= 2, ascii[0] == UInt8(ascii: "["), ascii[end - 1] == UInt8(ascii: "]") {
            start = 1
            end -= 1
        }
        var hasColon = false
        for index in start..<end where ascii[index] == UInt8(ascii: ":") { hasColon = true }
        if hasColon {
            self.init(v6: ascii, from: start, to: end)
        } else {
            guard start == 0, let bits = Self.v4Bits(ascii, from: 0, to: end) else { return nil }
            self.init(v4: bits)
        }
    }

    private static func v4Bits(_ ascii: Span<UInt8>, from start: Int, to end: Int) -> UInt32? {
        guard end - start <= 15 else { return nil }
        var bits: UInt32 = 0
        var octet: UInt32 = 0
        var digits = 0
        var dots = 0
        for index in start..<end {
            let byte = ascii[index]
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"):
                // A leading zero is refused, because "010" is octal for some programs and decimal for others.
                guard digits < 3, !(digits == 1 && octet == 0) else { return nil }
                octet = octet * 10 + UInt32(byte - UInt8(ascii: "0"))
                digits += 1
                guard octet <= 255 else { return nil }
            case UInt8(ascii: "."):
                guard digits > 0, dots < 3 else { return nil }
                bits = bits << 8 | octet
                octet = 0
                digits = 0
                dots += 1
            default: return nil
            }
        }
        guard dots == 3, digits > 0 else { return nil }
        return bits << 8 | octet
    }

    private init?(v6 ascii: Span<UInt8>, from start: Int, to end: Int) {
        guard end - start <= 45 else { return nil }
        var groups: [UInt16] = []
        var gap: Int?
        var index = start
        if end - start >= 2, ascii[start] == UInt8(ascii: ":"), ascii[start + 1] == UInt8(ascii: ":") {
            gap = 0
            index += 2
        }
        while index < end {
            var value: UInt32 = 0
            let groupStart = index
            while index < end, let digit = ascii[index].hexValue {
                value = value << 4 | UInt32(digit)
                index += 1
                guard index - groupStart <= 4 else { return nil }
            }
            if index < end, ascii[index] == UInt8(ascii: ".") {
                guard let bits = Self.v4Bits(ascii, from: groupStart, to: end) else { return nil }
                groups.append(UInt16(bits >> 16))
                groups.append(UInt16(truncatingIfNeeded: bits))
                index = end
                break
            }
            guard index > groupStart, groups.count < 8 else { return nil }
            groups.append(UInt16(truncatingIfNeeded: value))
            guard index < end else { break }
            guard ascii[index] == UInt8(ascii: ":") else { return nil }
            index += 1
            if index < end, ascii[index] == UInt8(ascii: ":") {
                guard gap == nil else { return nil }
                gap = groups.count
                index += 1
            } else if index == end {
                return nil
            }
        }
        if let gap {
            guard groups.count < 8 else { return nil }
            groups.insert(contentsOf: repeatElement(0, count: 8 - groups.count), at: gap)
        }
        guard groups.count == 8 else { return nil }
        high = groups[0..<4].reduce(0) { $0 << 16 | UInt64($1) }
        low = groups[4..<8].reduce(0) { $0 << 16 | UInt64($1) }
    }

    /// The address as dotted IPv4, or as IPv6 in the form of RFC 5952 without brackets.
    package var description: String {
        if isV4 {
            let bits = v4Bits
            return "\(bits >> 24).\(bits >> 16 & 255).\(bits >> 8 & 255).\(bits & 255)"
        }
        let groups = (0..<8).map { UInt16(truncatingIfNeeded: ($0 < 4 ? high : low) >> UInt64(48 - 16 * ($0 % 4))) }
        let longest = Self.longestZeroRun(groups)
        var text = ""
        var index = 0
        while index < 8 {
            if let longest, index == longest.lowerBound {
                text += "::"
                index = longest.upperBound
                continue
            }
            if !text.isEmpty, !text.hasSuffix(":") { text += ":" }
            text += String(groups[index], radix: 16)
            index += 1
        }
        return text
    }

    private static func longestZeroRun(_ groups: [UInt16]) -> Range<Int>? {
        var best: Range<Int>?
        var index = 0
        while index < groups.count {
            guard groups[index] == 0 else {
                index += 1
                continue
            }
            var end = index
            while end < groups.count, groups[end] == 0 { end += 1 }
            if end - index >= 2, end - index > (best?.count ?? 0) { best = index..<end }
            index = end
        }
        return best
    }

    /// The address as the host of a URI, with brackets for IPv6.
    package var uriHost: String { isV4 ? description : "[\(description)]" }
}
