import Bytes
import Testing

@Suite("Bytes of a message")
struct ByteStringTests {
    @Test func `percent decoding keeps NUL and leaves broken escapes alone`() {
        #expect(ByteString("a%00b%3D%zz%4").percentDecoded().array == Array("a\u{0}b=%zz%4".utf8))
    }

    @Test(arguments: [
        ("", "", true), ("a", "A", true), ("Via", "via", true), ("[", "{", false), ("@", "`", false),
        ("ab", "a", false),
    ])
    func `comparison without case is about ASCII letters only`(left: String, right: String, isEqual: Bool) {
        #expect(ByteString(left).equalsIgnoringCase(ByteString(right)) == isEqual)
    }

    @Test func `slices share storage, compare by bytes, and can leave it`() {
        let whole = ByteString("one two one")
        #expect(whole[0..<3] == whole[8..<11])
        #expect(whole[0..<3].hashValue == whole[8..<11].hashValue)
        #expect(whole[0..<3] != whole[4..<7])
        #expect(whole[4..<7].compacted().storage.capacityInBytes == 3)
        #expect(whole[4..<7].compacted() == "two")
        #expect(whole[4..<7].firstIndex(of: UInt8(ascii: "o")) == 2)
        #expect(whole.lastIndex(of: UInt8(ascii: "n")) == 9)
        #expect(ByteString.empty.isEmpty && ByteString.empty == ByteString(""))
    }

    @Test(
        arguments: [
            ("0", 0), ("007", 7), ("65535", 65535), ("65536", nil), ("", nil), ("-1", nil), ("+1", nil), ("1 ", nil),
            ("٣", nil),
            ("99999999999999999999999", nil),
        ] as [(String, UInt16?)])
    func `decimal numbers are digits that fit`(text: String, expected: UInt16?) {
        #expect(ByteString(text).decimal(as: UInt16.self) == expected)
    }

    @Test func `numbers are written in decimal`() {
        let write = { (value: Int) in
            var bytes: [UInt8] = []
            bytes.append(decimal: value)
            return String(decoding: bytes, as: UTF8.self)
        }
        #expect(
            [0, 9, 10, 4_294_967_296, -1, -120, .min].map(write) == [
                "0", "9", "10", "4294967296", "-1", "-120", "\(Int.min)",
            ])
    }

    @Test(arguments: [
        (#""""#, ""), (#""a\"b\\""#, #"a"b\"#), ("plain", "plain"), ("\"", "\""), (#""open"#, #""open"#),
    ])
    func `quotes are removed together with their escapes`(text: String, expected: String) {
        #expect(ByteString(text).unquoted().string == expected)
    }
}
