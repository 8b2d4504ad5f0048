import Foundation
import TestSupport
import Testing

@testable import sippushd

@Suite("Lines of CSV files")
struct CSVTests {
    private func fields(_ line: String) throws -> [String] {
        try CSV.fields(of: Array(line.utf8)).map { String(decoding: $0, as: UTF8.self) }
    }

    @Test(arguments: [
        ("a,b", ["a", "b"]), ("", [""]), (",", ["", ""]), ("\"a,b\",c", ["a,b", "c"]), ("\"a\"\"b\"", ["a\"b"]),
        ("\"\",x", ["", "x"]), ("\"\"\"\"", ["\""]), (" a , b ", [" a ", " b "]),
    ])
    func `fields and quotes`(line: String, expected: [String]) throws { #expect(try fields(line) == expected) }

    @Test(arguments: [
        ("\"a", CSV.Fault.openQuote), ("a,\"b\"\"", .openQuote), ("\"a\"b", .textAfterQuote), ("a\"b", .quoteInField),
    ])
    func `a fault is named`(line: String, fault: CSV.Fault) {
        #expect(throws: fault) { _ = try CSV.fields(of: Array(line.utf8)) }
    }

    @Test(arguments: [["a", "b"], ["a,b", "c\"d"], ["", ""], ["\"", "'"], ["=1", " "]])
    func `what is written is read back`(texts: [String]) throws {
        let line = CSV.line(of: texts)
        #expect(line.last == "\n")
        #expect(try fields(String(line.dropLast())) == texts)
    }

    @Test(arguments: [
        ("=1+1", true), ("@SUM(A1)", true), ("+1-cmd|' /C calc'!A0", true), ("-2+3", true), ("\tx", true),
        ("+4930123456", false), ("-5", false), ("bob", false), ("", false), ("'=1", false), ("+", true),
    ])
    func `formulas are told from telephone numbers`(text: String, isFormula: Bool) {
        #expect(SpreadsheetFormula.isFormula(text) == isFormula)
    }

    @Test(arguments: ["=1+1", "'=1", "''=1", "'", "''", "'bob", "+4930123456", "bob", "@", "-"])
    func `a neutralised text runs nowhere and comes back as it was`(text: String) {
        let neutral = SpreadsheetFormula.neutralised(text)
        #expect(!"=+-@\t\r".contains(neutral.first ?? "x"))
        #expect(SpreadsheetFormula.restored(neutral) == text)
    }

    // MARK: Files

    private func mode(of path: String) throws -> Int? {
        try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
    }

    private func lines(_ bytes: [UInt8]) throws -> [LineFile.Line] {
        let folder = try TemporaryFolder()
        try Data(bytes).write(to: URL(filePath: folder.file("lines")))
        var file = try LineFile(path: folder.file("lines"))
        var lines: [LineFile.Line] = []
        while let line = try file.next() { lines.append(line) }
        return lines
    }

    @Test(arguments: [
        ("", []), ("a", ["a"]), ("a\n", ["a"]), ("a\r\nb", ["a", "b"]), ("\n\n", ["", ""]), ("a\rb\n", ["a\rb"]),
    ])
    func `lines end with LF or CR LF`(text: String, expected: [String]) throws {
        #expect(try lines(Array(text.utf8)) == expected.map { .bytes(Array($0.utf8)) })
    }

    @Test func `a long line is skipped alone, and takes no memory`() throws {
        let long = [UInt8](repeating: UInt8(ascii: "x"), count: 1_000_000)
        let text = Array("a\n".utf8) + long + Array("\nb\n".utf8)
        #expect(try lines(text) == [.bytes([97]), .tooLong, .bytes([98])])
        #expect(try lines(long) == [.tooLong])
        for (count, fits) in [(LineFile.limit, true), (LineFile.limit + 1, false)] {
            for end in ["\n", "\r\n", ""] {
                let line = Array(long.prefix(count))
                #expect(try lines(line + Array(end.utf8)) == [fits ? .bytes(line) : .tooLong])
            }
        }
    }

    @Test func `the bytes of many chunks make the same lines`() throws {
        let texts = (0..<30_000).map { "user\($0),secret\($0 &* 2_654_435_761)" }
        let read = try lines(Array(texts.joined(separator: "\n").utf8))
        #expect(read == texts.map { .bytes(Array($0.utf8)) })
    }

    @Test(arguments: [false, true])
    func `a file that is there is not replaced, and a new one is its owner's`(hasName: Bool) throws {
        let folder = try TemporaryFolder()
        let path = folder.file("users.csv")
        do {
            let file = try NewFile(path: path, hasName: hasName)
            try file.write("a\n")
            // Until the file is complete it has no name, so that nothing remains if its writer is killed.
            let names = try FileManager.default.contentsOfDirectory(atPath: folder.path)
            #expect(names.map { $0.hasSuffix(".partial") } == (hasName ? [true] : []), "\(names)")
            #expect(try names.allSatisfy { try mode(of: folder.file($0)) == 0o600 })
            #expect(!FileManager.default.fileExists(atPath: path))
            try file.finish()
        }
        #expect(try String(contentsOfFile: path, encoding: .utf8) == "a\n")
        #expect(try mode(of: path) == 0o600)
        #expect(throws: Command.Failure.self) { _ = try NewFile(path: path) }
        // Before the writer has finished, another program creates a file with the same name.
        let other = folder.file("other.csv")
        do {
            let file = try NewFile(path: other, hasName: hasName)
            try Data("theirs".utf8).write(to: URL(filePath: other))
            #expect(throws: Command.Failure.self) { try file.finish() }
        }
        #expect(try String(contentsOfFile: other, encoding: .utf8) == "theirs")
        do {
            let file = try NewFile(path: path, mode: 0o640, replaces: true, hasName: hasName)
            try file.write("b\n")
            #expect(try String(contentsOfFile: path, encoding: .utf8) == "a\n")
            try file.finish()
        }
        #expect(try String(contentsOfFile: path, encoding: .utf8) == "b\n" && mode(of: path) == 0o640)
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted() == ["other.csv", "users.csv"])
    }
}
