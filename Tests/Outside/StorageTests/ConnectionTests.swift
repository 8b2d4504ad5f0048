import Glibc
import Storage
import TestSupport
import Testing

@Suite("SQL connection")
struct ConnectionTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private var path: String { folder.path + "/test.db" }

    @Test func `a commit is synchronised and in the write-ahead log`() throws {
        let connection = try Connection(path: path)
        #expect(try connection.integer("PRAGMA synchronous") == 2)
        #expect(try connection.integer("PRAGMA page_size") == 4096)
        let mode = try connection.statement("PRAGMA journal_mode")
        #expect(try mode.step())
        #expect(mode.text(0) == "wal")
    }

    @Test func `other users may not read the files`() throws {
        let connection = try Connection(path: path)
        try connection.execute("CREATE TABLE t (a)")
        for suffix in ["", "-wal", "-shm"] {
            var status = stat()
            #expect(unsafe stat(path + suffix, &status) == 0)
            #expect(status.st_mode & 0o777 == 0o600, "\(suffix)")
        }
    }

    @Test func `values are read back as they were written`() throws {
        let connection = try Connection(path: ":memory:")
        try connection.execute("CREATE TABLE t (a, b, c, d, e, f)")
        let odd: [UInt8] = [0, 0xFF, 0x41, 0]
        let insert = try connection.statement("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)")
        insert.bind(1, integer: Int64.min)
        insert.bind(2, integer: Int64.max)
        insert.bind(3, text: "Zoë")
        insert.bind(4, text: odd.span)
        insert.bind(5, blob: [UInt8]().span)
        insert.bindNull(6)
        try insert.run()
        let row = try connection.statement("SELECT *, typeof(d), typeof(e), length(e) FROM t")
        #expect(try row.step())
        #expect(row.integer(0) == .min)
        #expect(row.integer(1) == .max)
        #expect(row.text(2) == "Zoë")
        #expect(row.bytes(3) == odd)
        #expect(row.isNull(4) == false)
        #expect(row.bytes(4).isEmpty)
        #expect(row.isNull(5))
        #expect(row.bytes(5).isEmpty)
        #expect(row.text(6) == "text")
        #expect(row.text(7) == "blob")
        #expect(try row.step() == false)
    }

    @Test func `an empty text is not NULL`() throws {
        let connection = try Connection(path: ":memory:")
        let query = try connection.statement("SELECT ? IS NULL, typeof(?1)")
        query.bind(1, text: "")
        #expect(try query.step())
        #expect(query.integer(0) == 0)
        #expect(query.text(1) == "text")
    }

    @Test func `a statement is prepared once and is reset before each use`() throws {
        let connection = try Connection(path: ":memory:")
        let first = try connection.statement("SELECT ?")
        first.bind(1, integer: 7)
        #expect(try first.step())
        let again = try connection.statement("SELECT ?")
        #expect(first === again)
        #expect(try again.step())
        #expect(again.isNull(0))
    }

    @Test func `texts of any length stay bound until the statement is reset`() throws {
        let connection = try Connection(path: ":memory:")
        try connection.execute("CREATE TABLE t (a, b, c, d)")
        for length in [0, 1, 700, 1023, 1024, 2048, 100_000] {
            let texts = (0..<4).map { [UInt8](repeating: UInt8(ascii: "a") + UInt8($0), count: length) }
            let insert = try connection.statement(fixed: "INSERT INTO t VALUES (?, ?, ?, ?)")
            for (index, text) in texts.enumerated() {
                if index == 3 {
                    insert.bind(index + 1, blob: text.span)
                } else {
                    insert.bind(index + 1, text: text.span)
                }
            }
            try insert.run()
            let row = try connection.statement("SELECT *, typeof(a), typeof(d) FROM t ORDER BY rowid DESC LIMIT 1")
            #expect(try row.step())
            #expect((0..<4).map { row.bytes($0) } == texts)
            #expect([row.text(4), row.text(5)] == ["text", "blob"])
        }
    }

    @Test func `a constant statement is prepared once and is reset before each use`() throws {
        let connection = try Connection(path: ":memory:")
        func ask() throws -> Statement { try connection.statement(fixed: "SELECT ?") }
        let first = try ask()
        first.bind(1, text: "a")
        #expect(try first.step())
        let again = try ask()
        #expect(first === again)
        #expect(try again.step())
        #expect(again.isNull(0))
    }

    @Test func `an error contains the SQL and no values`() throws {
        let connection = try Connection(path: ":memory:")
        try connection.execute("CREATE TABLE t (a TEXT UNIQUE)")
        let sql = "INSERT INTO t VALUES (?)"
        let error = #expect(throws: SQLError.self) {
            for _ in 0..<2 {
                let insert = try connection.statement(sql)
                insert.bind(1, text: "secret")
                try insert.run()
            }
        }
        // 19 is SQLite's primary result code SQLITE_CONSTRAINT.
        #expect(error?.code.primary.rawValue == 19)
        #expect(error?.sql == sql)
        #expect(error.map { "\($0)".contains("secret") } == false)
        #expect(throws: SQLError.self) { try connection.execute("SELEC 1") }
        #expect(throws: SQLError.self) { try connection.statement("SELEC 1") }
        #expect(throws: SQLError.self) { try connection.statement(" -- nothing") }
    }

    @Test func `a parameter that does not exist fails when the statement runs`() throws {
        let connection = try Connection(path: ":memory:")
        let query = try connection.statement("SELECT ?")
        query.bind(2, integer: 1)
        query.bind(1, integer: 1)
        #expect(throws: SQLError.self) { try query.step() }
        #expect(try query.step())
    }

    @Test func `a transaction is all or nothing`() throws {
        let connection = try Connection(path: path)
        try connection.execute("CREATE TABLE t (a UNIQUE)")
        try connection.transaction { () throws(SQLError) in try connection.execute("INSERT INTO t VALUES (1)") }
        #expect(throws: SQLError.self) {
            try connection.transaction { () throws(SQLError) in
                try connection.execute("INSERT INTO t VALUES (2)")
                try connection.execute("INSERT INTO t VALUES (1)")
            }
        }
        let other = try Connection(path: path)
        #expect(try other.integer("SELECT sum(a) FROM t") == 1)
        try connection.transaction { () throws(SQLError) in try connection.execute("INSERT INTO t VALUES (3)") }
        #expect(try other.integer("SELECT sum(a) FROM t") == 4)
    }

    @Test func `another writer gets the busy error after the timeout`() throws {
        let connection = try Connection(path: path)
        var options = ConnectionOptions()
        options.busyTimeout = .zero
        let other = try Connection(path: path, options: options)
        try connection.execute("BEGIN IMMEDIATE")
        let error = #expect(throws: SQLError.self) {
            try other.transaction { () throws(SQLError) in try other.execute("CREATE TABLE t (a)") }
        }
        #expect(error?.code.primary == .busy)
    }

    @Test func `opening fails with a reason`() throws {
        #expect(throws: SQLError.self) { try Connection(path: "/nonexistent/x.db") }
        var options = ConnectionOptions()
        options.access = .readWrite
        #expect(throws: SQLError.self) { try Connection(path: path, options: options) }
        options.access = .readOnly
        _ = try Connection(path: folder.path + "/other.db")
        let reader = try Connection(path: folder.path + "/other.db", options: options)
        let error = #expect(throws: SQLError.self) { try reader.execute("CREATE TABLE t (a)") }
        #expect(error?.code.primary == .readOnly)
    }

    @Test func `the write-ahead log is copied on demand`() throws {
        var options = ConnectionOptions()
        options.autoCheckpoint = 0
        let connection = try Connection(path: path, options: options)
        try connection.execute("CREATE TABLE t (a); INSERT INTO t VALUES (zeroblob(100000))")
        let (logged, copied) = try connection.checkpoint(.passive)
        #expect(logged > 20)
        #expect(connection.pagesInLog == logged)
        #expect(copied == logged)
        try connection.execute("INSERT INTO t VALUES (1)")
        #expect(connection.pagesInLog < 4)
        #expect(try connection.checkpoint(.truncate) == (0, 0))
        var status = stat()
        #expect(unsafe stat(path + "-wal", &status) == 0)
        #expect(status.st_size == 0)
    }

    @Test func `a damaged file is found`() throws {
        do {
            let connection = try Connection(path: path)
            try connection.execute("CREATE TABLE t (a); CREATE INDEX i ON t (a)")
            try connection.transaction { () throws(SQLError) in
                for number in 0..<2000 { try connection.execute("INSERT INTO t VALUES (\(number))") }
            }
            #expect(try connection.integrityProblems().isEmpty)
            try connection.checkpoint(.truncate)
        }
        let descriptor = unsafe open(path, O_RDWR)
        var noise = [UInt8](repeating: 0xA5, count: 64)
        #expect(unsafe pwrite(descriptor, &noise, noise.count, 4096 * 4 + 2000) == noise.count)
        close(descriptor)
        let connection = try Connection(path: path)
        #expect(try !connection.integrityProblems().isEmpty)
    }
}

func == (left: (logged: Int, copied: Int), right: (Int, Int)) -> Bool {
    left.logged == right.0 && left.copied == right.1
}
