import Bytes
import Collections

/// The code by which providers and apps identify a push. All tries and all devices of a push have one code, which is
/// sent as `apns-id` and as `id` in payloads.
///
/// The code of a push is a version 4 UUID with 122 random bits from an unpredictable source.
package struct PushCode: Hashable, Absentable, Sendable {
    package let high, low: UInt64
    package static let absent = PushCode()

    /// Creates a code from random bits. Six of the 128 bits are replaced by the version of the UUID.
    package init(high: UInt64, low: UInt64) {
        self.high = high & 0xffff_ffff_ffff_0fff | 0x4000
        self.low = low & 0x3fff_ffff_ffff_ffff | 1 << 63
    }

    /// A hash for tables, taken from the code's random bits.
    var hash: UInt32 { UInt32(truncatingIfNeeded: high >> 32) }

    private init() { (high, low) = (0, 0) }

    /// Parses a code in the form of ``description``; `nil` for any other text.
    package init?(_ text: some StringProtocol) {
        guard text.utf8.count == Self.length else { return nil }
        var halves: (UInt64, UInt64) = (0, 0)
        for (index, byte) in text.utf8.enumerated() {
            guard !Self.isDash(index) else {
                guard byte == UInt8(ascii: "-") else { return nil }
                continue
            }
            let digit: UInt8
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): digit = byte - UInt8(ascii: "0")
            case UInt8(ascii: "a")...UInt8(ascii: "f"): digit = byte - UInt8(ascii: "a") + 10
            default: return nil
            }
            halves = (halves.0 << 4 | halves.1 >> 60, halves.1 << 4 | UInt64(digit))
        }
        let code = PushCode(high: halves.0, low: halves.1)
        guard code.high == halves.0, code.low == halves.1 else { return nil }
        self = code
    }

    private static let length = 36

    private static func isDash(_ index: Int) -> Bool { index == 8 || index == 13 || index == 18 || index == 23 }
}

extension PushCode: CustomStringConvertible {
    /// The code as the text of a version 4 UUID, in lower case.
    package var description: String { ByteString(copying: text.span).string }

    /// The ASCII bytes of ``description``.
    package var text: [36 of UInt8] {
        var text: [36 of UInt8] = .init(repeating: UInt8(ascii: "-"))
        let (first, last) = (high.hexDigits, low.hexDigits)
        var place = 0
        for digit in 0..<32 {
            if Self.isDash(place) { place += 1 }
            text[place] = digit < 16 ? first[digit] : last[digit - 16]
            place += 1
        }
        return text
    }
}
