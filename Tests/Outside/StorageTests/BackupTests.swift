import Foundation
import Storage
import TestSupport
import Testing

@Suite("Backup of a database")
struct BackupTests {
    private let folder: TemporaryFolder
    private let connection: Connection

    init() throws {
        folder = try TemporaryFolder()
        connection = try Connection(path: folder.path + "/test.db")
        try connection.execute("CREATE TABLE t (a); INSERT INTO t VALUES (randomblob(3000000))")
    }

    private var path: String { folder.path + "/test.db" }

    private var files: [String] {
        get throws { try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted() }
    }

    @Test func `it is whole, for its owner alone, and one file`() throws {
        let target = folder.path + "/copy.db"
        try Data("what was there before".utf8).write(to: URL(filePath: target))
        let before = try files
        let bytes = try connection.backUp(to: target, database: path)
        #expect(try files == before)
        let attributes = try FileManager.default.attributesOfItem(atPath: target)
        #expect(attributes[.posixPermissions] as? Int == 0o600)
        #expect((attributes[.size] as? NSNumber)?.intValue == bytes)
        var options = ConnectionOptions()
        options.access = .readOnly
        let copy = try Connection(path: target, options: options)
        #expect(try copy.integrityProblems().isEmpty)
        #expect(try copy.integer("SELECT length(a) FROM t") == 3_000_000)
        let mode = try copy.statement("PRAGMA journal_mode")
        #expect(try mode.step() && mode.text(0) == "delete")
    }

    @Test func `it is a consistent copy, even if others write at the same time`() throws {
        let writer = try Connection(path: path)
        var written = 0
        try connection.backUp(to: folder.path + "/copy.db", database: path) {
            written += 1
            try? writer.execute("INSERT INTO t VALUES (1)")
            return false
        }
        #expect(written > 1)
        #expect(try writer.integer("SELECT count(*) FROM t") == Int64(written + 1))
        #expect(try Connection(path: folder.path + "/copy.db").integer("SELECT count(*) FROM t") == 1)
    }

    @Test func `the database itself, and paths that are no files, are not overwritten`() throws {
        try FileManager.default.createSymbolicLink(
            atPath: folder.path + "/link", withDestinationPath: folder.path)
        try FileManager.default.createSymbolicLink(
            atPath: folder.path + "/link.db", withDestinationPath: path)
        try FileManager.default.linkItem(atPath: path, toPath: folder.path + "/hard.db")
        let before = try files
        for target in [
            path, path + "-wal", path + "-shm", path + ".lock", folder.path + "/link/test.db", folder.path + "/link.db",
            folder.path + "/hard.db", folder.path + "/./../\(URL(filePath: folder.path).lastPathComponent)/test.db",
            folder.path, "/dev/null", folder.path + "/none/copy.db", "copy.db", folder.path + "/",
        ] {
            #expect(throws: BackupError.self, "\(target)") { try connection.backUp(to: target, database: path) }
        }
        #expect(try files == before)
        #expect(try connection.integer("SELECT count(*) FROM t") == 1)
    }

    @Test func `an interrupted backup leaves no file`() throws {
        let target = folder.path + "/copy.db"
        try Data("old".utf8).write(to: URL(filePath: target))
        let before = try files
        #expect(throws: BackupError.cancelled) {
            try connection.backUp(to: target, database: path, isCancelled: { true })
        }
        #expect(try files == before)
        #expect(try String(contentsOfFile: target, encoding: .utf8) == "old")
    }
}
