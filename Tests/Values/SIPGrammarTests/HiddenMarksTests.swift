import Bytes
import SIPGrammar
import Testing

@Suite("Names without hidden marks (T10.4)")
struct HiddenMarksTests {
    @Test(arguments: [
        ("Anna", "Anna"), ("", ""), ("Анна Ä 日本 👍", "Анна Ä 日本 👍"), ("\u{202e}gnp.exe", "gnp.exe"),
        ("a\u{202a}b\u{202b}c\u{202c}d\u{202d}e\u{2066}f\u{2067}g\u{2068}h\u{2069}i", "abcdefghi"),
        ("\u{200e}x\u{200f}y\u{61c}", "xy"), ("a\u{0}b\r\nc\u{1b}[31md\u{7f}\u{85}\u{9b}", "abc[31md"),
        ("\u{2028}\u{2029}", ""), ("\u{200b}\u{2010}\u{20ac}\u{ae}", "\u{200b}\u{2010}\u{20ac}\u{ae}"),
    ])
    func `controls and direction marks are removed, and nothing else`(text: String, expected: String) {
        #expect(ByteString(text).withoutHiddenMarks() == ByteString(expected))
    }

    @Test func `taking one out makes no other one`() {
        let inside: [UInt8] = [0xe2, 0x80, 0xe2, 0x80, 0xae, 0xae, 0x41]
        #expect(ByteString(inside).withoutHiddenMarks() == ByteString("A"))
        let around: [UInt8] = [0xe2, 0x07, 0x80, 0x7f, 0xae, 0x41]
        #expect(ByteString(around).withoutHiddenMarks() == ByteString("A"))
    }
}
