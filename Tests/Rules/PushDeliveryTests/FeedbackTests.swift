import Bytes
import PushDelivery
import Testing
import Timekeeping

@Suite("Apple's feedback service")
struct FeedbackTests {
    private static let token = Array(UInt8(0)..<32)
    private static let hex = ByteString("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f")
    private static let first: [UInt8] = [0x60, 0xc8, 0x83, 0x13, 0, 0x20] + token
    /// A feedback record whose time is too large for a signed 32-bit number.
    private static let second: [UInt8] = [0x80, 0, 0, 1, 0, 0x20] + [UInt8](repeating: 0xff, count: 32)

    /// Feeds the bytes to the reader in slices.
    ///
    /// - Returns: the records, and the number of bytes that were left.
    private static func read(_ bytes: [UInt8], slices: Int) -> (records: [FeedbackRecord], rest: Int) {
        var reader = FeedbackReader()
        var records: [FeedbackRecord] = []
        for start in stride(from: 0, to: bytes.count, by: slices) {
            records += reader.read(Array(bytes[start..<min(start + slices, bytes.count)]).span)
        }
        return (records, reader.partialBytes)
    }

    @Test func `records are read with cuts at any place`() {
        let bytes = Self.first + Self.second
        let expected = [
            FeedbackRecord(second: 1_623_753_491, token: Self.hex),
            FeedbackRecord(second: 2_147_483_649, token: ByteString(String(repeating: "ff", count: 32))),
        ]
        for size in 1...bytes.count {
            let (records, rest) = Self.read(bytes, slices: size)
            #expect(records == expected && rest == 0)
        }
        for cut in 0...bytes.count {
            var reader = FeedbackReader()
            let records = reader.read(Array(bytes[..<cut]).span) + reader.read(Array(bytes[cut...]).span)
            #expect(records == expected)
        }
        #expect(expected[1].second == 2_147_483_649)
    }

    @Test func `an empty answer is normal, and a record that was cut off is reported and ignored`() {
        #expect(Self.read([], slices: 1).records.isEmpty)
        for count in 1..<38 {
            let (records, rest) = Self.read(Self.first + Self.first[..<count], slices: 5)
            #expect(records.count == 1 && rest == count)
        }
    }

    @Test func `the length gives the start of the next record`() {
        let short: [UInt8] = [0, 0, 0, 1, 0, 2, 0xab, 0xcd]
        let long: [UInt8] = [0, 0, 0, 2, 1, 0] + [UInt8](repeating: 1, count: 256)
        let none: [UInt8] = [0, 0, 0, 3, 0, 0]
        for size in [1, 7, 1000] {
            let (records, rest) = Self.read(short + long + none + Self.first, slices: size)
            #expect(records.map(\.second) == [1, 2, 3, 1_623_753_491])
            #expect(records.map(\.token.count) == [4, 512, 0, 64])
            #expect(records[0].token == "abcd")
            #expect(rest == 0)
        }
    }

    @Test func `an impossible length ends the reading, and earlier records count`() {
        let wrong: [UInt8] = [0, 0, 0, 1, 1, 1] + [UInt8](repeating: 0, count: 300)
        for slices in [1, 1000] {
            var reader = FeedbackReader()
            var records: [FeedbackRecord] = []
            let bytes = Self.first + wrong + Self.second
            for start in stride(from: 0, to: bytes.count, by: slices) {
                records += reader.read(Array(bytes[start..<min(start + slices, bytes.count)]).span)
            }
            #expect(records.map(\.second) == [1_623_753_491])
            #expect(reader.problem == .tokenTooLong(257))
        }
    }

    @Test(arguments: [
        (999, true), (1000, true), (1_000_000, true), (1_000_999, true), (1_001_000, false), (2_000_000, false),
    ])
    func `a token named later than in its last second is alive`(registeredAt: Int64, drops: Bool) {
        #expect(
            FeedbackRecord.shouldDropToken(second: 1000, registeredAt: UnixTime(milliseconds: registeredAt)) == drops)
    }

    @Test func `seconds beyond 2038 do not turn negative`() {
        #expect(FeedbackRecord.shouldDropToken(second: 2_147_483_649, registeredAt: UnixTime(seconds: 2_147_483_648)))
        #expect(!FeedbackRecord.shouldDropToken(second: .max, registeredAt: UnixTime(seconds: 4_294_967_296)))
    }

    @Test(arguments: [
        ("AbCd", ["abcd"]), ("AB:remote&CD:voip", ["ab", "cd"]), ("ab:x&cd", ["ab", "cd"]), ("ab&AB", ["ab"]),
        ("", []), ("&", []), (":voip&", []), ("a&b&c", ["a", "b", "c"]),
    ])
    func `the tokens of a contact are found in any form`(prid: String, tokens: [String]) {
        let token = PushToken(provider: .apnsDevelopment, param: .empty, prid: ByteString(prid))
        #expect(token.appleTokens.map(\.string) == tokens)
        #expect(PushToken(provider: .fcm, param: .empty, prid: ByteString(prid)).appleTokens.isEmpty)
    }

    @Test(arguments: [
        ("feedback.example.net:2196", "feedback.example.net", 2196), ("127.0.0.1:1", "127.0.0.1", 1),
        ("[::1]:2196", "::1", 2196),
    ])
    func `a host and a port are read and written`(text: String, host: String, port: UInt16) {
        let value = HostAndPort(text)
        #expect(value?.host == host && value?.port == port)
        #expect(value?.description == text)
    }

    @Test(arguments: ["", ":1", "a", "a:", "a:0", "a:65536", "a:b", "::1:2196", "[]:1", "a b:1", "https://a:1"])
    func `invalid addresses are refused`(text: String) { #expect(HostAndPort(text) == nil) }
}
