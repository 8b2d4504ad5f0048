package import SIPGrammar

/// One HTTP request to a provider, all but our credential.
package struct ProviderRequest: Hashable, Sendable {
    package struct Header: Hashable, Sendable {
        package let name: String
        package let value: String

        init(_ name: String, _ value: String) {
            self.name = name
            self.value = value
        }
    }

    /// What must be done to the body before it leaves, for which this layer has no means.
    package enum Protection: Hashable, Sendable {
        case none
        /// To be encrypted for a subscription (RFC 8291); key and secret in base64url.
        case webPush(publicKey: ByteString, authSecret: ByteString)
    }

    package let method: String
    /// Absolute, percent-encoded.
    package let url: String
    package let headers: [Header]
    package let body: [UInt8]
    package let protection: Protection

    init(
        method: String = "POST", url: String, headers: [Header], body: [UInt8], protection: Protection = .none
    ) {
        self.method = method
        self.url = url
        self.headers = headers
        self.body = body
        self.protection = protection
    }
}

/// Names a push to its provider and to the app that gets it, in all its tries; made from 128 random bits.
package struct PushCode: Hashable, Sendable, CustomStringConvertible {
    /// A version 4 UUID in lower case.
    package let description: String

    /// One that was made before.
    package init(_ description: String) { self.description = description }

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
