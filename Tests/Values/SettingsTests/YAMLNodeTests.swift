import Settings
import TestSupport
import Testing

@Suite("YAML tree")
struct YAMLNodeTests {
    private func node(_ yaml: String, limits: YAMLLimits = YAMLLimits()) throws(SettingsError) -> YAMLNode {
        try YAMLNode.read(Array(yaml.utf8), file: "f", limits: limits)
    }

    private func problems(_ yaml: [UInt8], limits: YAMLLimits = YAMLLimits()) -> [String] {
        do throws(SettingsError) {
            _ = try YAMLNode.read(yaml, file: "f", limits: limits)
            return []
        } catch {
            return error.problems.map(\.description)
        }
    }

    @Test func `values keep their order and their places`() throws {
        let root = try node("steps:\n  - play: bob\n    wait: 2\n  - end\nlast: ~\n")
        #expect(root.entries?.map(\.key) == ["steps", "last"])
        let first = root["steps"]?.items?.first
        #expect(first?["play"]?.text == "bob")
        #expect(first?["wait"]?.integer == 2)
        #expect(first?["wait"]?.position == YAMLPosition(line: 3, column: 11))
        #expect(root["steps"]?.items?.last?.text == "end")
        #expect(root["last"]?.isNull == true)
        #expect(root["absent"] == nil)
    }

    @Test func `quotes make a text of anything`() throws {
        let root = try node("a: '5'\nb: \"no\"\nc: ''\nd: |\n  two\n  lines\n")
        #expect(root["a"]?.integer == nil)
        #expect(root["a"]?.text == "5")
        #expect(root["b"]?.flag == nil)
        #expect(root["c"]?.isNull == false)
        #expect(root["d"]?.text == "two\nlines\n")
    }

    @Test(arguments: [
        ("a: &x 1", "f:1:4: anchors (&) and tags (!) are not supported"),
        ("a: !!str 1", "f:1:4: anchors (&) and tags (!) are not supported"),
        ("a: *x", "f:1:4: aliases (*) are not supported"),
        ("a: 1\n---\nb: 2", "f:2:1: expected one document, found a second"),
        ("[a]: 1", "f:1:1: expected a key, found a list"),
        ("a: {b: 1, b: 2}", "f:1:11: duplicate key \"b\", first on line 1"),
        ("a:\n\t- b", "f:2:1: found character that cannot start any token"),
        ("a: [1, 2", "f:2:1: did not find expected ',' or ']'"),
        ("a: \"open", "f:1:9: found unexpected end of stream"),
    ])
    func `unsupported syntax is refused`(yaml: String, expected: String) {
        #expect(problems(Array(yaml.utf8)) == [expected])
    }

    @Test func `bytes that are not UTF-8 are refused with their place`() {
        #expect(problems(Array("a: 1\nb: ".utf8) + [0xFF]) == ["f:2:4: invalid leading UTF-8 octet"])
        #expect(problems([0xFF, 0xFE, 0x61, 0x00]).count == 1)
        #expect(problems([0x61, 0x00]).count == 1)
    }

    @Test func `size, depth and number of values are bounded`() {
        var limits = YAMLLimits()
        limits.depth = 3
        #expect(problems(Array("[[1]]".utf8), limits: limits).isEmpty)
        #expect(problems(Array("[[[1]]]".utf8), limits: limits) == ["f:1:4: expected at most 3 levels"])
        limits.nodes = 3
        #expect(problems(Array("[1, 2]".utf8), limits: limits).isEmpty)
        #expect(problems(Array("[1, 2, 3]".utf8), limits: limits) == ["f:1:8: expected at most 3 values"])
        limits.bytes = 4
        #expect(problems(Array("[ ] ".utf8), limits: limits).isEmpty)
        #expect(problems(Array("[  ] ".utf8), limits: limits) == ["f: expected at most 4 bytes, found 5"])
        #expect(problems([UInt8](repeating: UInt8(ascii: "["), count: 100_000)).count == 1)
    }

    @Test func `no damaged document ends the process`() {
        let valid = Array(ExampleSettings.sample(title: "t").utf8) + Array("peers: {a: {address: \"x\\u00e9\"}}".utf8)
        var random = SeededGenerator()
        for _ in 0..<300 {
            var bytes = valid
            for _ in 0..<4 {
                bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
            }
            _ = try? ExampleSettings(
                yaml: Array(bytes.prefix(Int.random(in: 0...bytes.count, using: &random))), file: "f")
        }
    }
}
