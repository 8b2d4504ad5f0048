import Crypto
import Testing
import Timekeeping

@Suite("Signatures of requests")
struct RequestSignatureTests {
    private static let body = Array(#"{"event":"call.missed","id":"evt-1"}"#.utf8)
    private static let newSecret = Array("whsec-new-0123456789".utf8)
    private static let oldSecret = Array("whsec-old-0123456789".utf8)
    private static let time: Int64 = 1_623_753_691
    private static let newCode = "07af9704801a9a7df6ac4fe5fb9a96a3fbc1dfeabc2cdb6a8d0356057a1d5cc2"
    private static let oldCode = "5f37adbb6d99737511ed8946cb835daa7531fa26d13dbd9484aef573ecaf3881"

    private func isValid(_ text: String, body: [UInt8] = body, secret: [UInt8] = newSecret, age: Int64 = 0) throws
        -> Bool
    {
        try RequestSignature(Array(text.utf8))?.isValid(
            for: body, secrets: [secret], now: UnixTime(seconds: Self.time + age)) ?? false
    }

    @Test func `the signed text is the one that another program computes`() throws {
        let time = UnixTime(milliseconds: Self.time * 1000 + 999)
        let one = try RequestSignature(for: Self.body, secrets: [Self.newSecret], at: time)
        #expect(String(decoding: one.text, as: UTF8.self) == "t=1623753691,v1=\(Self.newCode)")
        let both = try RequestSignature(for: Self.body, secrets: [Self.newSecret, Self.oldSecret], at: time)
        #expect(
            String(decoding: both.text, as: UTF8.self) == "t=1623753691,v1=\(Self.newCode),v1=\(Self.oldCode)")
        let empty = try RequestSignature(for: [], secrets: [Self.newSecret], at: UnixTime(seconds: 0))
        #expect(
            String(decoding: empty.text, as: UTF8.self)
                == "t=0,v1=8e7782b401227b4970cc9d2bed2cd9c657ae84761132620a31f09b8b33bce62f")
    }

    @Test func `while a secret is replaced either is enough`() throws {
        let text = "t=\(Self.time),v1=\(Self.newCode),v1=\(Self.oldCode)"
        #expect(try isValid(text))
        #expect(try isValid(text, secret: Self.oldSecret))
        #expect(try !isValid(text, secret: Array("another".utf8)))
        #expect(try !isValid("t=\(Self.time),v1=\(Self.newCode)", secret: Self.oldSecret))
    }

    @Test func `a flipped bit is noticed at any place`() throws {
        let text = "t=\(Self.time),v1=\(Self.newCode)"
        #expect(try isValid(text))
        for index in Self.body.indices {
            var changed = Self.body
            changed[index] ^= 1
            #expect(try !isValid(text, body: changed))
        }
        for index in text.utf8.indices {
            var bytes = Array(text.utf8)
            bytes[text.utf8.distance(from: text.utf8.startIndex, to: index)] ^= 1
            #expect(try !isValid(String(decoding: bytes, as: UTF8.self)))
        }
        #expect(try !isValid("t=\(Self.time + 1),v1=\(Self.newCode)"))
        #expect(try !isValid(text, body: Self.body + [0]))
    }

    @Test(arguments: [(0, true), (300, true), (301, false), (-300, true), (-301, false), (1 << 40, false)])
    func `five minutes are the tolerance, in either direction`(age: Int64, isValid expected: Bool) throws {
        #expect(try isValid("t=\(Self.time),v1=\(Self.newCode)", age: age) == expected)
    }

    @Test func `additions of other programs are ignored`() throws {
        #expect(try isValid("v0=00,t=\(Self.time),v1=\(Self.newCode),x,=,v2=\(Self.oldCode)"))
        #expect(try isValid("t=\(Self.time),v1=\(Self.oldCode),v1=\(Self.newCode)"))
    }

    @Test(arguments: [
        "", "t", "t=", "t=1623753691", "v1=\(newCode)", "t=,v1=\(newCode)", "t=-1,v1=\(newCode)",
        "t=1623753691,t=1623753691,v1=\(newCode)", "t=1623753691 ,v1=\(newCode)", "t=1623753691, v1=\(newCode)",
        "t=1623753691,v1=", "t=1623753691,v1=00", "t=1623753691,v1=\(newCode)0",
        "t=1623753691,v1=\(newCode.uppercased())",
        "t=9223372036854775807,v1=\(newCode)", "t=99999999999999999999,v1=\(newCode)",
        "t=1623753691" + String(repeating: ",v1=\(newCode)", count: 9),
    ])
    func `a text in another form is no signature`(text: String) {
        #expect(RequestSignature(Array(text.utf8)) == nil)
    }

    @Test func `without secrets no signature is valid`() throws {
        let signature = try #require(RequestSignature(Array("t=\(Self.time),v1=\(Self.newCode)".utf8)))
        #expect(try !signature.isValid(for: Self.body, secrets: [], now: UnixTime(seconds: Self.time)))
    }
}
