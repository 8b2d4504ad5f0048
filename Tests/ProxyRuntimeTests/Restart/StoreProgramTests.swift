import Addressing
import Foundation
import Glibc
import HTTPClient
import LoopTesting
import Reactor
import Storage
import TestSupport
import Testing

@testable import ProxyRuntime

/// The store of the whole program, and what others do to its files.
@Suite("The program's store", .timeLimit(.minutes(3)), .serialized)
struct StoreProgramTests {
    private let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    private func settings(_ folder: StoreFolder, control: String = "control.sock") -> String {
        """
        domains: [example.net]
        listen: ["udp:127.0.0.1:0"]
        store: \(folder.path)
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

    @Test func `a foreign open and close takes nothing of what was acknowledged`() async throws {
        let daemon = try await DaemonProgram(settings: settings(folder), in: folder)
        try await withPhone(of: daemon) { phone in
            #expect(try await phone.register("before").hasPrefix("SIP/2.0 200"))
            try lookAndLeave()
            #expect(FileManager.default.fileExists(atPath: folder.path + "-wal"))
            #expect(try await phone.register("after").hasPrefix("SIP/2.0 200"))
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

    /// Another process, since SQLite's connections of one process know of each other.
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

    @Test func `a write-ahead log that somebody removes costs nothing, and explain goes on`() async throws {
        let daemon = try await DaemonProgram(settings: settings(folder), in: folder)
        try await withPhone(of: daemon) { phone in
            #expect(try await phone.register("before").hasPrefix("SIP/2.0 200"))
            #expect(try daemon.ask("/v1/explain/before@example.net").status == 200)
            for suffix in ["-wal", "-shm"] { try FileManager.default.removeItem(atPath: folder.path + suffix) }
            #expect(try await phone.register("after").hasPrefix("SIP/2.0 200"))
            #expect(try daemon.ask("/v1/explain/before@example.net").status == 200)
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
        try StoreReader(path: folder.path, mayMigrate: true).checkIntegrity()
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
        // What is killed holds nothing.
        try await DaemonProgram.with(settings: settings(folder), in: folder) { _ in }
    }

    @Test func `commands that read make no store, and say that there is none`() async throws {
        let file = try DaemonProgram.write(settings(folder), in: folder)
        for arguments in [
            ["user", "list"], ["apikey", "list"], ["app", "list"], ["user", "remove", "x@example.net"],
        ] {
            let ended = try await DaemonProgram.run(arguments + ["--config", file], in: folder)
            #expect(ended.status == (arguments[1] == "list" ? 0 : 1), "\(ended)")
            #expect(ended.complaint.contains("there is no store at \(folder.path)") || ended.status == 1, "\(ended)")
        }
        let left = try FileManager.default.contentsOfDirectory(atPath: folder.folder)
        #expect(!left.contains { $0.hasPrefix("store.db") }, "\(left)")
    }

    // MARK: Backup

    @Test func `a backup is taken while the daemon serves, and serves in its place`() async throws {
        let copy = try StoreFolder()
        try await DaemonProgram.with(settings: settings(folder), in: folder) { daemon in
            try await withPhone(of: daemon) { phone in
                #expect(try await phone.register("kept").hasPrefix("SIP/2.0 200"))
                let file = folder.folder + "/sippushd.yaml"
                let ended = try await DaemonProgram.run(["backup", copy.path, "--config", file], in: folder)
                #expect(ended.status == 0 && ended.output.contains(copy.path), "\(ended)")
                let own = try await DaemonProgram.run(["backup", folder.path, "--config", file], in: folder)
                #expect(own.status == 1 && own.complaint.contains("belongs to the store itself"), "\(own)")
                #expect(try await phone.register("later").hasPrefix("SIP/2.0 200"))
            }
        }
        try await DaemonProgram.with(settings: settings(copy), in: copy) { daemon in
            let counts = [
                try daemon.bindingCount(of: "kept@example.net"), try daemon.bindingCount(of: "later@example.net"),
            ]
            #expect(counts == [1, 0])
        }
        // Without a daemon, too.
        let file = folder.folder + "/sippushd.yaml"
        let ended = try await DaemonProgram.run(
            ["backup", folder.folder + "/offline.db", "--config", file], in: folder)
        #expect(ended.status == 0, "\(ended)")
        #expect(try StoreFolder.bindingCount(folder.folder + "/offline.db") == 2)
    }

    // MARK: Crashes

    @Test func `a call that kill -9 has ended is explained as such, one that was stopped as stopped`() async throws {
        for (callID, isKilled) in [("killed@pbx", true), ("stopped@pbx", false)] {
            let daemon = try await DaemonProgram(settings: settings(folder), in: folder)
            try await withPhone(of: daemon) { phone in
                #expect(try await phone.register("bob", push: "abcdef123456").hasPrefix("SIP/2.0 200"))
                #expect(try await phone.call("bob", callID).hasPrefix("SIP/2.0 100"))
                while try folder.rowCounts()["open_call"] != 1 { try await Task.sleep(for: .milliseconds(10)) }
            }
            if isKilled { daemon.kill() } else { daemon.terminate() }
            _ = try await daemon.ended()
            #expect(try folder.rowCounts()["open_call"] == (isKilled ? 1 : 0))
            try await DaemonProgram.with(settings: settings(folder), in: folder) { again in
                let file = folder.folder + "/sippushd.yaml"
                let told = try await DaemonProgram.run(["explain", callID, "--config", file], in: folder)
                #expect(told.output.hasPrefix("Call \(callID) for bob@example.net"), "\(told)")
                #expect(told.output.contains(isKilled ? "started again" : "the daemon was stopped"), "\(told)")
                #expect(try folder.rowCounts()["open_call"] == 0)
            }
        }
    }
}

// MARK: A phone

/// Sends one request at a time and waits for what comes back.
private struct Phone: Sendable {
    let daemon: Endpoint
    let loop: EventLoop
    let socket: Held
    let answers: Mailbox<String>

    /// - `@unchecked Sendable` because it is used on its loop alone.
    struct Held: @unchecked Sendable {
        let socket: UDPSocket
    }

    func register(_ user: String, push token: String? = nil) async throws -> String {
        let parameters = token.map { ";pn-provider=acrobits;pn-param=app;pn-prid=\($0)" } ?? ""
        return try await send { local in
            SIPText.register(
                user: user, from: local, callID: UUID().uuidString, cseq: 1, branch: UUID().uuidString,
                contact: "<sip:\(user)@\(local)\(parameters)>")
        }
    }

    func call(_ user: String, _ callID: String) async throws -> String {
        try await send { local in
            SIPText.invite(to: user, from: "100", at: local, callID: callID, branch: UUID().uuidString)
        }
    }

    private func send(_ text: @Sendable (Endpoint) -> [UInt8]) async throws -> String {
        await Bench(loop).run { _ in socket.socket.queue(text(socket.socket.local), to: daemon) }
        return try await answers.next()
    }
}

private func withPhone(of daemon: DaemonProgram, _ body: (Phone) async throws -> Void) async throws {
    try await withLoop { loop in
        let answers = Mailbox<String>()
        let socket = try await Bench(loop).run { bench in
            let socket = try UDPSocket(boundTo: Endpoint(.loopbackV4, 0), on: bench.loop)
            try socket.receive { batch in
                for index in 0..<batch.count {
                    answers.put(
                        batch.withBytes(at: index) { bytes in
                            unsafe bytes.withUnsafeBufferPointer { unsafe String(decoding: $0, as: UTF8.self) }
                        })
                }
            }
            return Phone.Held(socket: socket)
        }
        try await body(Phone(daemon: daemon.sip, loop: loop, socket: socket, answers: answers))
        await Bench(loop).run { _ in socket.socket.close() }
    }
}
