import Bytes
package import Timekeeping

/// The signature of an HTTP request, which proves to the receiver that the sender knows the secret. Webhooks, pushes to
/// gateways and queries about users have such signatures.
///
/// The form is `t=UNIX,v1=HEX`: HEX is the HMAC-SHA256 of the time's digits, a full stop and the body.
///
/// While a secret is being replaced, a signature has one code for the old and one for the new secret.
package struct RequestSignature: Hashable, Sendable {
    /// The time at which the request was signed, in whole seconds.
    package let time: UnixTime
    /// The authentication codes, one for each secret.
    private let codes: [[UInt8]]

    /// The maximum difference between the time of a signature and the receiver's clock.
    package static let tolerance: Duration = .seconds(300)

    /// The maximum number of codes in one signature that receivers check.
    private static let codeLimit = 8
    /// The maximum number of digits in the time of a signature. Calculations with numbers of this length cannot
    /// overflow.
    private static let timeDigitLimit = 12

    /// Signs the request's body with each secret.
    package init(for body: [UInt8], secrets: [[UInt8]], at time: UnixTime) throws(CryptoError) {
        self.time = UnixTime(seconds: time.seconds)
        var codes: [[UInt8]] = []
        for secret in secrets { codes.append(try Self.code(for: body, secret: secret, at: self.time)) }
        self.codes = codes
    }

    /// Reads a signature from the value of a header field, and ignores members other than `t` and `v1`.
    package init?(_ text: [UInt8]) {
        var time: UnixTime?
        var codes: [[UInt8]] = []
        for member in text.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false) {
            let value = Array(member.drop { $0 != UInt8(ascii: "=") }.dropFirst())
            switch String(decoding: member.prefix { $0 != UInt8(ascii: "=") }, as: UTF8.self) {
            case "t":
                guard time == nil, value.count <= Self.timeDigitLimit,
                    let seconds = ByteString(value).decimal(as: Int64.self)
                else { return nil }
                time = UnixTime(seconds: seconds)
            case "v1":
                guard codes.count < Self.codeLimit, let code = Hex.decode(value),
                    code.count == HMACKey.byteCount
                else { return nil }
                codes.append(code)
            default: break
            }
        }
        guard let time, !codes.isEmpty else { return nil }
        self.time = time
        self.codes = codes
    }

    /// The signature as the value of a header field.
    package var text: [UInt8] {
        var text = Array("t=\(time.seconds)".utf8)
        for code in codes {
            text.append(contentsOf: Array(",v1=".utf8))
            text.append(contentsOf: Hex.encode(code))
        }
        return text
    }

    /// Whether an owner of one of the secrets signed the body at a time close to `now`.
    ///
    /// The time that a comparison takes does not reveal which bytes of a code are correct.
    package func isValid(
        for body: [UInt8], secrets: [[UInt8]], now: UnixTime, tolerance: Duration = tolerance
    ) throws(CryptoError) -> Bool {
        var isRight = false
        for secret in secrets {
            let expected = try Self.code(for: body, secret: secret, at: time)
            for code in codes where equalInConstantTime(expected, code) { isRight = true }
        }
        let age = UnixTime(seconds: now.seconds) - time
        return isRight && age <= tolerance && .zero - age <= tolerance
    }

    private static func code(for body: [UInt8], secret: [UInt8], at time: UnixTime) throws(CryptoError) -> [UInt8] {
        var key = try HMACKey(secret.span)
        return key.code(for: Array("\(time.seconds).".utf8) + body)
    }
}
