package import Bytes
package import Timekeeping

/// One record of Apple's feedback service: a push token, and the time at which Apple found that the app is gone.
package struct FeedbackRecord: Hashable, Sendable {
    /// The time at which Apple found that the app is gone, in seconds since 1970, up to the year 2106.
    package let second: UInt32
    /// The push token in lower-case hexadecimal digits.
    package let token: ByteString

    package init(second: UInt32, token: ByteString) {
        self.second = second
        self.token = token
    }

    /// Whether the daemon removes the token of a record: a token that its device registered after `second` is alive.
    package static func shouldDropToken(second: UInt32, registeredAt: UnixTime) -> Bool {
        registeredAt.seconds <= Int64(second)
    }
}

extension PushToken {
    package var isApple: Bool { provider == .apns || provider == .apnsDevelopment }

    /// The one or two device tokens in an Apple device's `pn-prid`, in lower case, without their services.
    ///
    /// The property also reads parameters that ``APNsToken`` refuses, because a dead token must be found even in a
    /// malformed contact.
    package var appleTokens: [ByteString] {
        guard isApple else { return [] }
        var tokens: [ByteString] = []
        for part in prid.parts(separatedBy: UInt8(ascii: "&")) {
            let token = part[0..<(part.firstIndex(of: UInt8(ascii: ":")) ?? part.count)].lowercased()
            if !token.isEmpty, !tokens.contains(token) { tokens.append(token) }
        }
        return tokens
    }
}

extension DeadToken {
    /// Appends one 38-byte record of Apple's feedback format for each 32-byte device token in the contact.
    package func appendFeedbackRecords(to bytes: inout [UInt8]) {
        let second = UInt32(clamping: since.seconds)
        for token in token.appleTokens {
            guard token.count == 64, let raw = Hex.decode(token) else { continue }
            bytes.append(big: UInt64(second), count: 4)
            bytes += [0, 32]
            bytes += raw
        }
    }
}
