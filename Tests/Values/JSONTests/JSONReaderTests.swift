import JSON
import TestSupport
import Testing

private func value(_ text: String, limits: JSONReader.Limits = JSONReader.Limits()) throws(JSONError) -> JSONValue {
    try JSONValue(Array(text.utf8), limits: limits)
}

private func refusal(_ bytes: [UInt8], limits: JSONReader.Limits = JSONReader.Limits()) -> JSONError.Reason? {
    do throws(JSONError) {
        _ = try JSONValue(bytes, limits: limits)
        return nil
    } catch {
        return error.reason
    }
}

@Suite("Reading JSON (RFC 8259)")
struct JSONReaderTests {
    @Test(arguments: [
        ("null", JSONValue.null), (" true ", .bool(true)), ("false", .bool(false)), ("0", .number("0")),
        ("-0.5e+10", .number("-0.5e+10")), ("\"\"", .string("")), ("[]", .array([])), ("{}", .object([])),
        ("[1, [2],\t\"3\"\r\n]", .array([.number("1"), .array([.number("2")]), .string("3")])),
        (#""\"\\\/\b\f\n\r\t\u0041\u00e9\uD83D\uDE00 é""#, .string("\"\\/\u{8}\u{c}\n\r\tAé😀 é")),
        (#""a\u0000b""#, .string("a\0b")),
    ])
    func `values are read`(text: String, expected: JSONValue) throws {
        #expect(try value(text) == expected)
    }

    @Test func `members are found by their key`() throws {
        let object = try value(#"{"\u0061":2,"b":{"c":["x"]},"n":null}"#)
        #expect(object["a"]?.integer == 2)
        #expect(object["b"]?["c"]?.array?.first?.string == "x")
        #expect(object["n"] == .null)
        #expect(object["missing"] == nil)
        #expect(object["b"]?["c"]?["x"] == nil)
    }

    @Test(arguments: [
        #"{"a":1,"a":1}"#, #"{"a":1,"b":2,"\u0061":3}"#, #"{"\u0061":1,"a":3}"#, #"[{"x":{"a":1,"a":[]}}]"#,
        #"{"a":{"a":1},"b":{"a":1},"a":2}"#, #"{"":1,"":2}"#, #"{"\/":1,"/":2}"#,
        // The two names are duplicates, because Swift's dictionaries treat them as the same key.
        "{\"\u{e9}\":1,\"e\u{301}\":2}",
    ])
    func `no object has a name twice`(text: String) throws {
        #expect(refusal(Array(text.utf8)) == .repeatedName)
        // The reader also finds a duplicate name in a value that it skips.
        var reader = try JSONReader(Array(text.utf8))
        #expect(throws: JSONError.self) { try reader.skipValue() }
    }

    @Test(arguments: [
        #"{"a":{"a":[{"a":1},{"a":2}]},"b":{"a":1}}"#, #"[{"a":1},{"a":1}]"#, #"{"a":1,"A":2,"a ":3,"\u0061b":4}"#,
    ])
    func `several objects may contain the same name`(text: String) {
        #expect(refusal(Array(text.utf8)) == nil)
    }

    @Test(arguments: [15, 16, 17, 18, 1000])
    func `objects with many names are checked as well`(count: Int) {
        let members = (0..<count).map { "\"n\($0)\":{\"n1\":0}" }.joined(separator: ",")
        #expect(refusal(Array("{\(members)}".utf8)) == nil)
        for again in [0, count / 2, count - 1] {
            #expect(refusal(Array("[{\(members),\"n\(again)\":0}]".utf8)) == .repeatedName)
        }
        #expect(refusal(Array("[{\(members)},{\(members)}]".utf8)) == nil)
    }

    @Test(arguments: [
        "1.5", "1e3", "9223372036854775808", "\"1\"",
    ])
    func `numbers that are no whole numbers of 64 bits give none`(text: String) throws {
        #expect(try value(text).integer == nil)
    }

    @Test(arguments: [
        "", " ", "nul", "nulll", "tru", "01", "1.", ".5", "-", "+1", "1e", "0x10", "NaN", "Infinity", "'a'", "\"a",
        "\"\\x\"",
        "\"\\u12g4\"", "\"\\u12\"", "\"\t\"", "[1,]", "[,1]", "[1 2]", "[1", "]", "{\"a\"}", "{\"a\":}", "{\"a\":1,}",
        "{a:1}",
        "{\"a\":1 \"b\":2}", "{\"a\":1]", "[1}", "1 2", "{} x", "\u{FEFF}1", "// c\n1", "{1:2}", "\"\\ud800\"",
        "\"\\ud800x\"",
        "\"\\ud800\\n\"", "\"\\udc00\"", "\"\\ud800\\u0041\"",
    ])
    func `text that is no JSON is refused`(text: String) {
        #expect(refusal(Array(text.utf8)) != nil)
    }

    @Test func `bytes that are not UTF-8 are refused`() {
        #expect(refusal([0x22, 0xff, 0x22]) == .encoding)
        #expect(refusal([0x22, 0xed, 0xa0, 0x80, 0x22]) == .encoding)
    }

    @Test func `depth, length and the number of values are bounded`() {
        var limits = JSONReader.Limits()
        limits.depth = 3
        #expect(refusal(Array("[[[1]]]".utf8), limits: limits) == nil)
        #expect(refusal(Array("[[[{}]]]".utf8), limits: limits) == .tooDeep)
        #expect(refusal([UInt8](repeating: UInt8(ascii: "["), count: 100_000)) == .tooDeep)
        limits.values = 4
        #expect(refusal(Array("[1,2,3]".utf8), limits: limits) == nil)
        #expect(refusal(Array("[1,2,3,4]".utf8), limits: limits) == .tooManyValues)
        limits.bytes = 4
        #expect(refusal(Array("1234".utf8), limits: limits) == nil)
        #expect(refusal(Array("12345".utf8), limits: limits) == .tooLong)
    }

    @Test func `skipped values are still checked`() throws {
        var reader = try JSONReader(Array(#"{"a":[{"b":1},[2]],"c":3}"#.utf8))
        #expect(try reader.next() == .objectStart)
        guard case .key = try reader.next() else { throw TestFailure() }
        try reader.skipValue()
        guard case .key(let key) = try reader.next() else { throw TestFailure() }
        #expect(reader.isEqual(key, to: "c"))
        #expect(!reader.isEqual(key, to: "cc"))
        try reader.skipValue()
        #expect(try reader.next() == .objectEnd)
        #expect(try reader.next() == .end)
        #expect(try reader.next() == .end)
        var broken = try JSONReader(Array("[1,x]".utf8))
        #expect(throws: JSONError.self) { try broken.skipValue() }
    }

    /// Tests random texts that resemble JSON. The reader must never trap, and must accept each accepted text again
    /// after it was written.
    @Test func `noise never traps`() {
        let alphabet = Array(#"{}[]",:\u0d8nfte-+.1 eé"#.utf8) + [0x00, 0xff]
        var random = SeededGenerator(seed: 7)
        for _ in 0..<20_000 {
            _ = try? JSONValue((0..<12).compactMap { _ in alphabet.randomElement(using: &random) })
        }
    }
}

private struct TestFailure: Error {}
