import Foundation
import Storage
import TestSupport
import Testing

/// SQLite's locks on a database file tell other processes that the file is in use. If any other code of the process
/// opens and closes the file, the process loses all its POSIX locks on the file.
@Suite("SQL connection, locks on the file")
struct FileLocksTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private var path: String { folder.path + "/test.db" }

    @Test func `further connections leave the locks of the first in place`() throws {
        let first = try Connection(path: path)
        try first.execute("CREATE TABLE t (a)")
        let locks = try self.locks()
        #expect(!locks.isEmpty)
        for access in [ConnectionOptions.Access.readWriteCreate, .readWrite, .readOnly] {
            var options = ConnectionOptions()
            options.access = access
            do {
                let further = try Connection(path: path, options: options)
                #expect(try further.integer("SELECT count(*) FROM t") == 0)
                #expect(try locks.isSubset(of: self.locks()), "\(access), open")
            }
            #expect(try self.locks() == locks, "\(access), closed")
        }
        try first.execute("INSERT INTO t VALUES (1)")
        #expect(try self.locks() == locks)
    }

    @Test func `a foreign process that opens and closes the file leaves the write-ahead log`() throws {
        let first = try Connection(path: path)
        try first.execute("CREATE TABLE t (a); INSERT INTO t VALUES (1)")
        _ = try Connection(path: path)
        let foreign = Process()
        foreign.executableURL = URL(filePath: "/usr/bin/python3")
        foreign.arguments = [
            "-c",
            "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); print(c.execute('SELECT a FROM t').fetchall())",
            path,
        ]
        let output = Pipe()
        foreign.standardOutput = output
        try foreign.run()
        foreign.waitUntilExit()
        let said = try output.fileHandleForReading.readToEnd() ?? Data()
        #expect(String(decoding: said, as: UTF8.self) == "[(1,)]\n")
        #expect(FileManager.default.fileExists(atPath: path + "-wal"))
    }

    /// Returns the POSIX locks that this process has on the file, as the kernel reports them.
    private func locks() throws -> Set<String> {
        try #require(KernelLocks.of(path, heldBy: ProcessInfo.processInfo.processIdentifier))
    }
}
