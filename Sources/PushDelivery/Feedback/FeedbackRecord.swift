package import SIPGrammar
package import Timekeeping

/// One record of Apple's feedback service: when the app was found to be gone, and its token.
package struct FeedbackRecord: Hashable, Sendable {
    /// Unsigned seconds since 1970: they last until 2106.
    package let second: UInt32
    /// Lower-case hexadecimal.
    package let token: ByteString

    package init(second: UInt32, token: ByteString) {
        self.second = second
        self.token = token
    }

    package var time: UnixTime { UnixTime(seconds: Int64(second)) }
}

extension FeedbackRecord {
    /// The bytes of one Apple token, or `nil` for what is none of 32 bytes in hexadecimal.
    private static func bytes(of token: ByteString) -> [UInt8]? {
        guard token.count == 64 else { return nil }
        return token.withSpan { span in
            var bytes: [UInt8] = []
            bytes.reserveCapacity(32)
            for index in 0..<32 {
                guard let high = span[2 * index].hexValue, let low = span[2 * index + 1].hexValue else { return nil }
                bytes.append(high << 4 | low)
            }
            return bytes
        }
    }

    /// Adds the records of a dead token in Apple's form, 38 bytes each: as many as its contact had tokens of 32 bytes.
    package static func append(_ dead: DeadToken, to bytes: inout [UInt8]) {
        guard dead.token.provider == .apns || dead.token.provider == .apnsDevelopment,
            let tokens = try? APNsToken(dead.token)
        else { return }
        let second = UInt32(clamping: dead.since.seconds)
        for token in [tokens.remote, tokens.voip] {
            guard let token, let raw = Self.bytes(of: token) else { continue }
            for shift: UInt32 in [24, 16, 8, 0] { bytes.append(UInt8(truncatingIfNeeded: second >> shift)) }
            bytes += [0, 32]
            bytes += raw
        }
    }
}
