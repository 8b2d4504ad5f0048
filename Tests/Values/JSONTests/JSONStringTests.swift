import Bytes
import JSON
import TestSupport
import Testing

private func written(_ bytes: [UInt8], atMost limit: Int = .max) -> [UInt8] {
    var out: [UInt8] = []
    out.append(jsonString: bytes.span, atMost: limit)
    return out
}

@Suite("Writing JSON strings")
struct JSONStringTests {
    @Test(arguments: [
        ("", #""""#), ("plain", #""plain""#), (#"a"b\c"#, #""a\"b\\c""#), ("\r\n\t\u{8}\u{c}", #""\r\n\t\b\f""#),
        ("\0\u{1f}\u{7f}", "\"\\u0000\\u001f\u{7f}\""), ("é😀/", "\"é😀/\""),
        ("\u{2028}\u{2029}\u{202a}", "\"\\u2028\\u2029\u{202a}\""),
        ("{{x}}%0d%0a", #""{{x}}%0d%0a""#),
    ])
    func `text is escaped where it must be`(text: String, expected: String) {
        #expect(written(Array(text.utf8)) == Array(expected.utf8))
    }

    @Test(arguments: [
        [0xff], [0xc3], [0xc3, 0x28], [0xe2, 0x80], [0xe2, 0x28, 0xa1], [0xed, 0xa0, 0x80], [0xf0, 0x9f, 0x98],
        [0xf8, 0x88],
        [0xc0, 0xaf], [0xe0, 0x80, 0x80], [0xf4, 0x90, 0x80, 0x80], [0x61, 0x80, 0x62],
    ])
    func `bytes that are not UTF-8 are replaced as Swift replaces them`(bytes: [UInt8]) {
        #expect(written(bytes) == Array("\"\(String(decoding: bytes, as: UTF8.self))\"".utf8))
    }

    @Test(arguments: [
        (0, ""), (1, "a"), (2, "a"), (3, "aé"), (4, "aé"), (5, "aé\\n"), (8, "aé\\n"), (9, "aé\\n😀"),
        (15, "aé\\n😀\\u0001"),
    ])
    func `a limit ends the string behind a whole character`(limit: Int, expected: String) {
        #expect(written(Array("aé\n😀\u{1}".utf8), atMost: limit) == Array("\"\(expected)\"".utf8))
    }

    @Test func `any bytes read back as the same text`() throws {
        var random = SeededGenerator(seed: 11)
        for length in 0..<600 {
            let bytes = random.bytes(length)
            let read = try JSONValue(written(bytes)).string
            #expect(read == String(decoding: bytes, as: UTF8.self))
        }
    }

    @Test func `it is appended after the existing text`() {
        var out = Array("x:".utf8)
        out.append(jsonString: ByteString("ab"), atMost: 1)
        #expect(out == Array("x:\"a\"".utf8))
    }
}
