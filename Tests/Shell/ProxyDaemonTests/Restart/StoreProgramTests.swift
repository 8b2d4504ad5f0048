import Foundation
import Glibc
import HTTPClient
import LoopTesting
import Storage
import StoreTesting
import TestSupport
import Testing

/// Tests the store of the real program, and other programs that open the store's files.
@Suite(
    "The program's store", .timeLimit(.minutes(10)), .serialized,
    .enabled(if: StoreFolder.isSQLite, "the suite is about SQLite's file"))
struct StoreProgramTests {
    private let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    private func settings(_ folder: StoreFolder, control: String = "control.sock") -> String {
        """
        domains: [example.net]
        listen: ["udp:127.0.0.1:0"]
        \(folder.settings)
        control: \(folder.folder)/\(control)
        auth: "off"
        trusted: [127.0.0.0/8]
        api:
          listen: ["127.0.0.1:0"]
        push:
          acrobits:
            enabled: true
            endpoint: http://127.0.0.1:9
        """
    }

    // MARK: Other processes

    @Test func `another program that opens and closes the store destroys no acknowledged data`() async throws {
        let daemon = try await DaemonProgram(settings: settings(folder), in: folder)
        try await ProgramPhone.with(daemon) { phone in
            #expect(try await phone.register("before").hasPrefix("SIP/2.0 200"))
            try lookAndLeave()
            #expect(FileManager.default.fileExists(atPath: folder.path + "-wal"))
            #expect(try await phone.register("after").hasPrefix("SIP/2.0 200"))
            // SQLite's lock on the file must stay while the daemon opens and closes other connections to it.
            #expect(KernelLocks.of(folder.path, heldBy: daemon.id)?.isEmpty == false)
        }
        daemon.kill()
        _ = try await daemon.ended()
        try await DaemonProgram.with(settings: settings(folder), in: folder) { again in
            let counts = [
                try again.bindingCount(of: "before@example.net"), try again.bindingCount(of: "after@example.net"),
            ]
            #expect(counts == [1, 1])
        }
    }

    /// Opens the store in another process, because connections of one process know about each other.
    private func lookAndLeave() throws {
        let foreign = Process()
        foreign.executableURL = URL(filePath: "/usr/bin/python3")
        foreign.arguments = [
            "-c",
            "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT * FROM binding').fetchall()",
            folder.path,
        ]
        try foreign.run()
        foreign.waitUntilExit()
        #expect(foreign.terminationStatus == 0)
    }

    @Test func `the removal of a write-ahead log loses nothing, and explain still works`() async throws {
        let daemon = try await DaemonProgram(settings: settings(folder), in: folder)
        try await ProgramPhone.with(daemon) { phone in
            #expect(try await phone.register("before").hasPrefix("SIP/2.0 200"))
            #expect(try daemon.ask("/v1/explain/before@example.net").status == 200)
            for suffix in ["-wal", "-shm"] { try FileManager.default.removeItem(atPath: folder.path + suffix) }
            #expect(try await phone.register("after").hasPrefix("SIP/2.0 200"))
            #expect(try daemon.ask("/v1/explain/before@example.net").status == 200)
            // A program that opens the database now finds the new log file, and does not remove it.
            try lookAndLeave()
            #expect(FileManager.default.fileExists(atPath: folder.path + "-wal"))
            #expect(try await phone.register("later").hasPrefix("SIP/2.0 200"))
        }
        daemon.kill()
        _ = try await daemon.ended()
        try await DaemonProgram.with(settings: settings(folder), in: folder) { again in
            for user in ["before", "after", "later"] {
                let count = try again.bindingCount(of: "\(user)@example.net")
                #expect(count == 1, "\(user)")
            }
        }
        #expect(try folder.integrityProblems().isEmpty)
    }

    @Test func `a second daemon and commands past the first are refused by file and process`() async throws {
        try await DaemonProgram.with(settings: settings(folder), in: folder) { daemon in
            let file = folder.folder + "/second.yaml"
            try Data(settings(folder, control: "second.sock").utf8).write(to: URL(filePath: file))
            for arguments in [["serve"], ["user", "list"], ["app", "list"], ["backup", folder.folder + "/copy.db"]] {
                let ended = try await DaemonProgram.run(arguments + ["--config", file], in: folder)
                #expect(ended.status == 1, "\(ended)")
                #expect(ended.complaint.contains("(process \(daemon.id))"), "\(ended)")
                #expect(ended.complaint.contains("\(folder.path).lock"), "\(ended)")
            }
            let written = try await DaemonProgram.run(
                ["user", "add", "100@example.net", "--password-stdin", "--config", file], input: "secret\n", in: folder)
            #expect(written.status == 1 && written.complaint.contains("(process \(daemon.id))"), "\(written)")
        }
        // The store can be opened again, because a killed process holds no lock any more.
        try await DaemonProgram.with(settings: settings(folder), in: folder) { _ in }
    }

    @Test func `removing the lock file admits no second daemon`() async throws {
        let lock = folder.path + ".lock"
        let daemon = try await DaemonProgram(settings: settings(folder), in: folder)
        try FileManager.default.removeItem(atPath: lock)
        while !FileManager.default.fileExists(atPath: lock) { try await Task.sleep(for: .milliseconds(20)) }
        let file = folder.folder + "/second.yaml"
        try Data(settings(folder, control: "second.sock").utf8).write(to: URL(filePath: file))
        let ended = try await DaemonProgram.run(["serve", "--config", file], in: folder)
        #expect(ended.status == 1 && ended.complaint.contains("(process \(daemon.id))"), "\(ended)")
        daemon.terminate()
        #expect(try await daemon.ended() == 0)
        try await DaemonProgram.with(settings: settings(folder), in: folder) { _ in }
    }

    @Test func `commands that read create no store, and report that none exists`() async throws {
        let file = try DaemonProgram.write(settings(folder), in: folder)
        for arguments in [
            ["user", "list"], ["apikey", "list"], ["app", "list"], ["user", "remove", "x@example.net"],
        ] {
            let ended = try await DaemonProgram.run(arguments + ["--config", file], in: folder)
            #expect(ended.status == (arguments[1] == "list" ? 0 : 1), "\(ended)")
            #expect(ended.complaint.contains("the store \(folder.path)") || ended.status == 1, "\(ended)")
        }
        let left = try FileManager.default.contentsOfDirectory(atPath: folder.folder)
        #expect(!left.contains { $0.hasPrefix("store.db") }, "\(left)")
    }

    // MARK: Backup

    @Test func `a backup is made while the daemon serves, and can replace the store`() async throws {
        let copy = try StoreFolder()
        try await DaemonProgram.with(settings: settings(folder), in: folder) { daemon in
            try await ProgramPhone.with(daemon) { phone in
                #expect(try await phone.register("kept").hasPrefix("SIP/2.0 200"))
                let file = folder.folder + "/sippushd.yaml"
                let ended = try await DaemonProgram.run(["backup", copy.path, "--config", file], in: folder)
                #expect(ended.status == 0 && ended.output.contains(copy.path), "\(ended)")
                let own = try await DaemonProgram.run(["backup", folder.path, "--config", file], in: folder)
                #expect(own.status == 1 && own.complaint.contains("belongs to the store itself"), "\(own)")
                #expect(try daemon.ask("/v1/explain/kept@example.net").status == 200)
                // SQLite's lock on the file must stay while the daemon opens and closes other connections to it.
                #expect(KernelLocks.of(folder.path, heldBy: daemon.id)?.isEmpty == false)
                #expect(try await phone.register("later").hasPrefix("SIP/2.0 200"))
            }
        }
        try await DaemonProgram.with(settings: settings(copy), in: copy) { daemon in
            let counts = [
                try daemon.bindingCount(of: "kept@example.net"), try daemon.bindingCount(of: "later@example.net"),
            ]
            #expect(counts == [1, 0])
        }
        // A backup of the store is possible even if no daemon runs.
        let file = folder.folder + "/sippushd.yaml"
        let ended = try await DaemonProgram.run(
            ["backup", folder.folder + "/offline.db", "--config", file], in: folder)
        #expect(ended.status == 0, "\(ended)")
        #expect(try StoreFolder.rowCounts(folder.folder + "/offline.db")["binding"] == 2)
    }

    // MARK: A full disk

    @Test func `a full disk is reported in a sentence, refuses changes that cannot be stored, and recovers by itself`()
        async throws
    {
        let disk = folder.folder + "/disk"
        try FileManager.default.createDirectory(atPath: disk, withIntermediateDirectories: true)
        guard unsafe mount("tmpfs", disk, "tmpfs", 0, "size=2m") == 0 else {
            print("skipped: a file system may not be mounted here (\(unsafe String(cString: strerror(errno))))")
            return
        }
        defer { unsafe umount2(disk, Int32(MNT_DETACH)) }
        let settings = settings(folder).replacing(folder.path, with: disk + "/store.db")
        let file = try DaemonProgram.write(settings, in: folder)
        try fill(disk)
        let refused = try await DaemonProgram.run(["serve", "--config", file], in: folder)
        #expect(refused.status == 1 && refused.complaint.contains("No space left on device"), "\(refused)")
        try empty(disk)
        // The disk has room only for the lock file, so that SQLite reports the full disk.
        try Data("0 none\n".utf8).write(to: URL(filePath: disk + "/store.db.lock"))
        try fill(disk)
        let locked = try await DaemonProgram.run(["serve", "--config", file], in: folder)
        #expect(locked.status == 1 && locked.complaint.contains("the disk is full"), "\(locked)")
        try empty(disk)
        try await DaemonProgram.with(settings: settings, in: folder) { daemon in
            try await ProgramPhone.with(daemon) { phone in
                #expect(try await phone.register("bob", push: "abcdef123456").hasPrefix("SIP/2.0 200"))
                try fill(disk)
                var number = 0
                var answer = ""
                repeat {
                    number += 1
                    answer = try await phone.register("user\(number)")
                } while answer.hasPrefix("SIP/2.0 200") && number < 2000
                #expect(answer.hasPrefix("SIP/2.0 503") && answer.contains("\r\nRetry-After: "), "\(answer)")
                try await expectFull(daemon)
                // The daemon handles the call as usual, and writes its records when the disk has room.
                #expect(try await phone.call("bob", "full@pbx").hasPrefix("SIP/2.0 100"))
                try empty(disk)
                while try daemon.ask("/readyz").status != 200 { try await Task.sleep(for: .milliseconds(50)) }
                #expect(try await phone.register("later").hasPrefix("SIP/2.0 200"))
                // When the disk has room again, the daemon writes the records within a second, without any other event.
                while try !holds("full@pbx", in: disk + "/store.db-calls") {
                    try await Task.sleep(for: .milliseconds(50))
                }
            }
            daemon.kill()
            _ = try await daemon.ended()
        }
        let again = try await DaemonProgram(settings: settings, in: folder)
        #expect(try again.bindingCount(of: "later@example.net") == 1)
        let bucket = try again.ask("/v1/users/bob@example.net/bucket")
        #expect(String(decoding: bucket.body, as: UTF8.self).contains("\"callRef\""))
        again.terminate()
        #expect(try await again.ended() == 0)
        // With just enough disk space to open the store, known users are served, but no new change is acknowledged.
        try Data(repeating: 0, count: 40_960).write(to: URL(filePath: disk + "/reserve"))
        try fill(disk)
        try FileManager.default.removeItem(atPath: disk + "/reserve")
        try await DaemonProgram.with(settings: settings, in: folder) { full in
            try await expectFull(full)
            try await ProgramPhone.with(full) { phone in
                let answer = try await phone.call("bob", "again@pbx")
                #expect(answer.hasPrefix("SIP/2.0 100"))
            }
            try empty(disk)
            while try full.ask("/readyz").status != 200 { try await Task.sleep(for: .milliseconds(50)) }
        }
    }

    private func holds(_ text: String, in folder: String) throws -> Bool {
        try FileManager.default.contentsOfDirectory(atPath: folder).contains { name in
            try Data(contentsOf: URL(filePath: "\(folder)/\(name)")).range(of: Data(text.utf8)) != nil
        }
    }

    private func expectFull(_ daemon: DaemonProgram) async throws {
        var ready = try daemon.ask("/readyz")
        // The test waits until the daemon has checked the free disk space after its start.
        while ready.status == 200 {
            try await Task.sleep(for: .milliseconds(20))
            ready = try daemon.ask("/readyz")
        }
        #expect(ready.status == 503)
        #expect(String(decoding: ready.body, as: UTF8.self).contains("the disk is full"))
        let figures = String(decoding: try daemon.ask("/metrics").body, as: UTF8.self)
        #expect(figures.contains("\nsippushd_store_failing 1\n"))
    }

    /// Fills the disk with large and then small pieces, and then with more files, until nothing fits.
    private func fill(_ disk: String) throws {
        var number = 0
        var vain = 0
        while vain < 3 {
            let descriptor = unsafe open(disk + "/filler\(number)", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
            guard descriptor >= 0 else { break }
            defer { close(descriptor) }
            number += 1
            var written = 0
            for size in [65_536, 4096, 1] {
                let piece = [UInt8](repeating: 0, count: size)
                while true {
                    let count = unsafe write(descriptor, piece, size)
                    guard count > 0 else { break }
                    written += count
                }
            }
            vain = written > 0 ? 0 : vain + 1
        }
        var room = statvfs()
        #expect(unsafe statvfs(disk, &room) == 0 && room.f_bavail == 0, "the disk is not full")
    }

    /// Frees the room on the disk that ``fill(_:)`` has filled. A program that another test just starts may keep
    /// removed files open until its `exec`, so the files are truncated first.
    private func empty(_ disk: String) throws {
        for name in try FileManager.default.contentsOfDirectory(atPath: disk) where name.hasPrefix("filler") {
            #expect(unsafe truncate("\(disk)/\(name)", 0) == 0, "\(disk)/\(name) cannot be cut")
            try FileManager.default.removeItem(atPath: "\(disk)/\(name)")
        }
    }
}
