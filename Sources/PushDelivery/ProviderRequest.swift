/// One HTTP request to a provider, all but its server and our credential.
package struct ProviderRequest: Hashable, Sendable {
    package struct Header: Hashable, Sendable {
        package let name: String
        package let value: String

        init(_ name: String, _ value: String) {
            self.name = name
            self.value = value
        }
    }

    /// From the slash on, percent-encoded. The method is always POST.
    package let path: String
    package let headers: [Header]
    package let body: [UInt8]
}

/// Names a push to APNs in all its tries; made from 128 random bits.
package struct APNsID: Hashable, Sendable, CustomStringConvertible {
    /// A version 4 UUID in lower case.
    package let description: String

    package init(high: UInt64, low: UInt64) {
        let high = high & 0xffff_ffff_ffff_0fff | 0x4000
        let low = low & 0x3fff_ffff_ffff_ffff | 1 << 63
        var text: [UInt8] = []
        text.reserveCapacity(36)
        for (index, half) in [high, low].enumerated() {
            for digit in 0..<16 {
                if index == 0 ? digit == 8 || digit == 12 : digit == 0 || digit == 4 { text.append(UInt8(ascii: "-")) }
                let value = UInt8(truncatingIfNeeded: half >> UInt64(60 - 4 * digit)) & 15
                text.append(value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "a") + value - 10)
            }
        }
        description = String(decoding: text, as: UTF8.self)
    }
}
