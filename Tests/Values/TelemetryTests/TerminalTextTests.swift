import Testing

@testable import Telemetry

@Suite("Output to a terminal (T18.2)")
struct TerminalTextTests {
    /// Texts that would give a terminal a command, or change the appearance of other text.
    private static let hidden =
        [
            "\u{0}", "\u{7}", "\u{1b}[2J", "\u{7f}", "\u{9b}31m", "\u{200e}", "\u{200f}", "\u{61c}", "\u{2028}",
            "\u{feff}",
        ]
        + (0x202a...0x202e).compactMap { Unicode.Scalar($0).map { String($0) } }
        + (0x2066...0x2069).compactMap { Unicode.Scalar($0).map { String($0) } }

    @Test(arguments: hidden)
    func `a value is escaped as in the log`(text: String) {
        let value = "a\(text)b"
        let escaped = TerminalText.escaped(value)
        #expect(escaped.unicodeScalars.allSatisfy { !LogEscaping.isHidden($0) })
        #expect(escaped.hasPrefix("a\\u{") && escaped.hasSuffix("b"))
        #expect(
            TerminalText.escapedLines("\(value)\n").unicodeScalars.dropLast().allSatisfy { !LogEscaping.isHidden($0) })
        // The escaped text is still JSON, and has the same value.
        let json = TerminalText.escapedJSON("\"\(value)\"")
        #expect(json.utf8.allSatisfy { (0x20...0x7e).contains($0) })
    }

    @Test func `a line stays one line, and readable text stays readable`() {
        #expect(TerminalText.escaped("a\nb\r\tc") == "a\\nb\\r\\tc")
        #expect(TerminalText.escaped("\"Анна\" <sip:a@h> 日本 c\\d") == "\"Анна\" <sip:a@h> 日本 c\\d")
        #expect(TerminalText.escapedLines("a: \"\\\"\nb\n") == "a: \"\\\"\nb\n")
        #expect(TerminalText.escapedJSON("{\n  \"a\" : \"\u{e0001}ä\"\n}") == "{\n  \"a\" : \"\\udb40\\udc01ä\"\n}")
    }
}
