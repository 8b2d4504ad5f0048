import Addressing
import Foundation
import Glibc
import ProxyCore
import Registration
import Storage
import StoreTesting
import Telemetry
import TestSupport
import Testing
import Timekeeping

@testable import Persistence

@Suite("Store, faults", .timeLimit(.minutes(10)), .serialized, .onlySQLite)
struct StoreFaultTests {
    private let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    /// A `kill -9` at any time loses no acknowledged change, and the store recovers without help (fault F1).
    @Test func `a process that is killed while it writes keeps all acknowledged changes`() async throws {
        var survived = 0
        for round in 0..<5 {
            let path = folder.path
            let journal = folder.folder + "/journal-\(round)"
            let first = UInt64(round) * 1_000_000 + 1
            await #expect(processExitsWith: .signal(SIGKILL)) {
                [path = path as String, journal = journal as String, first = first as UInt64] in
                try writeUntilKilled(path: path, journal: journal, first: first)
            }
            let acknowledged = try Data(contentsOf: URL(filePath: journal))
            let ids = stride(from: 0, to: acknowledged.count / 8 * 8, by: 8).map { start in
                acknowledged[start..<start + 8].reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
            }
            #expect(ids.count >= 100)
            #expect(try folder.integrityProblems().isEmpty)
            let stored = Set(try folder.read().bindings.map(\.id.rawValue))
            #expect(ids.allSatisfy(stored.contains))
            // The store still has all changes that were acknowledged in earlier rounds.
            survived += ids.count
            #expect(stored.count >= survived)
        }
    }

    /// If the disk is full, every waiting change fails; when the disk has space again, changes succeed (fault F3).
    @Test func `a full disk fails the changes and recovers by itself`() async throws {
        let path = folder.path
        await #expect(processExitsWith: .success) { [path = path as String] in
            try await fillDisk(path: path)
        }
        #expect(try folder.integrityProblems().isEmpty)
    }

    /// If another program removes the log file, its content must survive until it can be copied.
    @Test func `a log that is removed while it cannot be saved is kept until it can`() async throws {
        var settings = StoreWriterSettings()
        settings.probeInterval = .milliseconds(20)
        let store = try ObservedWriter(folder, settings)
        let row = { (id: UInt64) in RowChange.engine(.binding(.upsert(.sample(id)))) }
        #expect(await store.write([row(1)]) == true)
        var options = ConnectionOptions()
        options.access = .readOnly
        let reader = try Connection(path: folder.path, options: options)
        try reader.execute("BEGIN")
        #expect(try reader.integer("SELECT count(*) FROM binding") == 1)
        #expect(await store.write([row(2)]) == true)
        for suffix in ["-wal", "-shm"] { try FileManager.default.removeItem(atPath: folder.path + suffix) }
        #expect(await store.write([row(3)]) == false)
        while store.writer.failure == nil { try await Task.sleep(for: .milliseconds(5)) }
        try reader.execute("COMMIT")
        while store.writer.failure != nil { try await Task.sleep(for: .milliseconds(5)) }
        #expect(await store.write([row(4)]) == true)
        let stored = Set(try folder.read().bindings.map(\.id.rawValue))
        #expect(stored.isSuperset(of: [1, 2, 4]))
        store.writer.stop()
        #expect(Set(try folder.read().bindings.map(\.id.rawValue)) == stored)
    }

    @Test func `a path that is no file is refused at the start`() throws {
        #expect(throws: SQLiteFailure.self) { try ObservedWriter(folder.folder) }
        #expect(throws: SQLiteFailure.self) { try ObservedWriter(folder.folder + "/none/store.db") }
    }
}

/// Runs in a child process, which writes rows, records each acknowledged row in the file `journal`, and kills itself at
/// a random time.
private func writeUntilKilled(path: String, journal: String, first: UInt64) throws {
    let descriptor = unsafe open(journal, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
    var random = SeededGenerator()
    let end = first + UInt64.random(in: 100...3000, using: &random)
    let log = Log(level: .error, sink: StandardErrorSink()) { UnixTime(milliseconds: 0) }
    let writer = try StoreWriter(path: path, log: log) { results in
        var ids = results.filter(\.isStored).compactMap(\.number)
        _ = unsafe write(descriptor, &ids, ids.count * 8)
        if ids.contains(where: { $0 >= end }) { kill(getpid(), SIGKILL) }
    }
    var id = first
    while true {
        if writer.commit([.engine(.binding(.upsert(.sample(id))))], for: .service(id)) { id += 1 }
    }
}

/// A child process runs this function, because the limit of file sizes applies to a whole process.
private func fillDisk(path: String) async throws {
    signal(SIGXFSZ, SIG_IGN)
    let store = try ObservedWriter(path)
    var id: UInt64 = 0
    func writeMany() async -> Bool? {
        let rows = (0..<500).map { _ -> RowChange in
            id += 1
            return .engine(.binding(.upsert(.sample(id))))
        }
        return await store.write(rows)
    }
    #expect(await writeMany() == true)
    setFileLimit(512 * 1024)
    var attempts = 0
    while await writeMany() == true, attempts < 1000 { attempts += 1 }
    #expect(attempts < 1000)
    let stored = try StoreFolder.rowCounts(path)["binding"] ?? 0
    #expect(await writeMany() == false)
    #expect(try StoreFolder.rowCounts(path)["binding"] == stored)
    #expect(store.writer.figures[.storeFailure] == 1000)
    #expect(store.logSink.lines.contains { $0.contains("error the store cannot be written error=") })
    setFileLimit(rlim_t.max)
    #expect(await writeMany() == true)
    #expect(try StoreFolder.rowCounts(path)["binding"] == stored + 500)
    store.writer.stop()
}

private func setFileLimit(_ bytes: rlim_t) {
    var limit = rlimit(rlim_cur: bytes, rlim_max: rlim_t.max)
    #expect(unsafe setrlimit(__rlimit_resource_t(1), &limit) == 0)
}
