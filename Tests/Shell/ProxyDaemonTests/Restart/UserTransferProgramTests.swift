import Foundation
import HTTP1Connections
import HTTPClient
import LoopTesting
import StoreTesting
import Testing

@testable import Control

/// Tests `user import`, `user export` and `init` as operators type them, with and without a running daemon.
@Suite("Users in bulk, and new settings", .timeLimit(.minutes(10)), .serialized)
struct UserTransferProgramTests {
    private let folder: StoreFolder
    private var file: String { folder.folder + "/commands.yaml" }
    private var csv: String { folder.folder + "/users.csv" }

    init() throws {
        folder = try StoreFolder()
        try Data(DaemonProgram.settings(folder).utf8).write(to: URL(filePath: folder.folder + "/commands.yaml"))
    }

    private func run(_ arguments: String..., input: String = "") async throws -> DaemonProgram.Ended {
        try await DaemonProgram.run(arguments + ["--config", file], input: input, in: folder)
    }

    private func mode(of path: String) throws -> Int? {
        try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
    }

    private func rows(_ count: Int) -> String {
        "user,domain,password\r\n" + (0..<count).map { "user\($0),example.net,secret\($0)\r\n" }.joined()
    }

    private func names() async throws -> [String] {
        try await run("user", "list").output.split(separator: "\n").map(String.init)
    }

    private func exported() async throws -> String {
        try? FileManager.default.removeItem(atPath: csv)
        let ended = try await run("user", "export", csv, "--with-hashes")
        try #require(ended.status == 0, "\(ended)")
        return try String(contentsOfFile: csv, encoding: .utf8)
    }

    private func withOrWithoutDaemon(_ isRunning: Bool, _ body: () async throws -> Void) async throws {
        guard isRunning else { return try await body() }
        try await DaemonProgram.with(settings: DaemonProgram.settings(folder), in: folder) { _ in try await body() }
    }

    @Test(arguments: [false, true])
    func `good rows are stored and bad ones named, however often the file is imported`(isRunning: Bool) async throws {
        try await withOrWithoutDaemon(isRunning) {
            let text = rows(600) + "user7,example.net,again\n,example.net,x\n=1+1,example.net,x\nlast,example.net,x"
            let dry = try await run("user", "import", "-", "--dry-run", input: text)
            #expect(dry.status == 1 && dry.output == "601 users would be stored, 3 rows are refused\n", "\(dry)")
            #expect(try await names() == [])
            var exports: Set<String> = []
            for _ in 0..<2 {
                let ended = try await run("user", "import", "-", input: text)
                #expect(ended.status == 1 && ended.output == "601 users are stored, 3 rows are refused\n", "\(ended)")
                for line in [
                    "line 602: user7@example.net is already in line 9", "line 603: the user is empty",
                    "line 604: the user \"=1+1\" begins like the formula of a spreadsheet",
                ] {
                    #expect(ended.complaint.contains("sippushd: \(line)\n"), "\(ended)")
                }
                #expect(try await names().count == 601)
                exports.insert(try await exported())
            }
            #expect(exports.count == 1)
        }
    }

    @Test(arguments: [false, true])
    func `an export has no hashes unless they are wanted, and is read by its owner alone`(isRunning: Bool) async throws
    {
        try await withOrWithoutDaemon(isRunning) {
            let first = try await run(
                "user", "import", "-",
                input: "username,domain,ha1\n+4930,example.net,\(String(repeating: "Ab", count: 16))\n")
            #expect(first.status == 0, "\(first)")
            #expect(first.complaint.contains("1 users have only a hash for MD5"), "\(first)")
            let plain = try await run("user", "export", csv)
            #expect(plain.status == 0 && plain.output == "1 users in \(csv)\n", "\(plain)")
            #expect(try String(contentsOfFile: csv, encoding: .utf8) == "user,realm\n'+4930,example.net\n")
            #expect(try mode(of: csv) == 0o600)
            let again = try await run("user", "export", csv)
            #expect(again.status == 1 && again.complaint.contains("exists already and is unchanged"), "\(again)")
            let hashes = try await exported()
            #expect(
                hashes
                    == "user,realm,ha1,ha1_sha256,ha1_sha512_256\n'+4930,example.net,\(String(repeating: "ab", count: 16)),,\n"
            )
            // An import accepts the exported file.
            #expect(try await run("user", "remove", "+4930").status == 0)
            #expect(try await run("user", "import", csv).status == 0)
            #expect(try await exported() == hashes)
        }
    }

    @Test func `more users than a page and a batch hold come back whole`() async throws {
        try await withOrWithoutDaemon(true) {
            let ended = try await run("user", "import", "-", input: rows(2600))
            #expect(ended.status == 0, "\(ended)")
            #expect(try await exported().split(separator: "\n").count == 2601)
        }
    }

    @Test func `a batch is stored whole or not at all, and only over the control socket`() async throws {
        try await DaemonProgram.with(settings: DaemonProgram.settings(folder), in: folder) { daemon in
            let hash = String(repeating: "a", count: 32)
            func send(_ body: String, _ method: String = "POST", _ path: String = "/v1/users") throws -> Int {
                var request = HTTPClientRequest(
                    method: method, url: "http://sippushd\(path)", body: Array(body.utf8))
                request.route.unixSocketPath = folder.folder + "/control.sock"
                return try HTTPSession.wait(for: request).status
            }
            func user(_ name: String) -> String { #"{"name":"\#(name)","ha1MD5":"\#(hash)"}"# }
            let partly = try send("{\"users\":[\(user("a@example.net")),\(user("nobody"))]}")
            #expect(partly == 400)
            #expect(try send("{\"users\":[]}") == 400)
            let many = (0...UserBatch.limit).map { user("u\($0)@example.net") }.joined(separator: ",")
            #expect(try send("{\"users\":[\(many)]}") == 400)
            #expect(try await names() == [])
            #expect(try send("{\"users\":[\(user("a@example.net"))]}") == 200)
            #expect(try await names() == ["a@example.net"])
            // The running daemon knows the imported user immediately.
            #expect(try daemon.ask("/v1/users/a@example.net").status == 200)
            for path in ["/v1/users", "/v1/user-credentials"] {
                let request = HTTPClientRequest(url: "http://\(daemon.api)\(path)")
                #expect(try HTTPSession.wait(for: request).status != 200)
            }
        }
    }

    @Test(arguments: [
        ("", "the first line must name the columns"), ("bob,x,y\n", "line 1: "), ("user,domain\n", "line 1: "),
    ])
    func `a file without a head is refused whole`(text: String, sentence: String) async throws {
        let ended = try await run("user", "import", "-", input: text)
        #expect(ended.status == 1 && ended.complaint.contains(sentence), "\(ended)")
        let missing = try await run("user", "import", folder.folder + "/none.csv")
        #expect(missing.status == 1 && missing.complaint.contains("cannot be opened"), "\(missing)")
    }

    // MARK: New settings

    private func initialise(_ path: String, _ more: String...) async throws -> DaemonProgram.Ended {
        try await DaemonProgram.run(["init", "--config", path] + more, in: folder)
    }

    @Test func `init writes settings that start`() async throws {
        let path = folder.folder + "/new.yaml"
        let ended = try await initialise(path, "--domain", "example.net", "--pbx", "127.0.0.1:5090")
        #expect(ended.status == 0 && ended.output.hasPrefix("\(path) is written.\n"), "\(ended)")
        #expect(ended.output.contains("sippushd user add bob@example.net"))
        #expect(try mode(of: path) == 0o640)
        let checked = try await DaemonProgram.run(["check-config", "--config", path], in: folder)
        #expect(checked.status == 0, "\(checked)")
        // The test gives the settings their own folder and ports.
        let text = try String(contentsOfFile: path, encoding: .utf8)
        let rest = DaemonProgram.settings(folder).split(separator: "\n").dropFirst().joined(separator: "\n")
        try await DaemonProgram.with(settings: text + rest, in: folder) { daemon in
            try await ProgramPhone.with(daemon) { phone in
                let answer = try await phone.register("bob")
                #expect(answer.hasPrefix("SIP/2.0 200"), "\(answer)")
            }
        }
    }

    @Test func `init replaces the sample, and nothing else without being told`() async throws {
        let path = folder.folder + "/new.yaml"
        let sample = try await DaemonProgram.run(["check-config", "--print-sample"], in: folder)
        try Data(sample.output.utf8).write(to: URL(filePath: path))
        #expect(try await initialise(path, "--domain", "example.net").status == 0)
        let made = try String(contentsOfFile: path, encoding: .utf8)
        let second = try await initialise(path, "--domain", "example.org")
        #expect(second.status == 1 && second.complaint.contains("exists already and is unchanged"), "\(second)")
        #expect(try String(contentsOfFile: path, encoding: .utf8) == made)
        #expect(try await initialise(path, "--domain", "example.org", "--force").status == 0)
        #expect(try String(contentsOfFile: path + ".old", encoding: .utf8) == made)
        #expect(try String(contentsOfFile: path, encoding: .utf8).contains("example.org"))
        #expect(!FileManager.default.fileExists(atPath: folder.folder + "/.new.yaml.partial"))
    }

    @Test func `init says what is wrong, and writes nothing then`() async throws {
        let path = folder.folder + "/new.yaml"
        for (words, status, sentence) in [
            ([], 64, "expected --domain, because there is no terminal for questions"),
            (["--domain", "exa mple"], 1, "expected a domain such as example.net"),
            (["--domain", "example.net", "--pbx", "pbx"], 1, "the PBX needs an IP address"),
            (["--domain", "example.net", "--tls-cert", "x"], 64, "expected all of --tls-cert, --tls-key"),
            (
                [
                    "--domain", "example.net", "--apns-topic", "a", "--apns-team", "b", "--apns-key-id", "c",
                    "--apns-key", "d",
                ], 1, "ten"
            ),
        ] as [([String], Int32, String)] {
            let ended = try await DaemonProgram.run(["init", "--config", path] + words, in: folder)
            #expect(ended.status == status && ended.complaint.contains(sentence), "\(words): \(ended)")
            #expect(!FileManager.default.fileExists(atPath: path))
        }
        // `init` reports the missing keys, and continues.
        let ended = try await initialise(
            path, "--domain", "example.net", "--fcm-account", "/none.json", "--tls-cert", "credential:c", "--tls-key",
            "credential:k")
        #expect(ended.status == 0 && ended.output.contains("service-account-file: /none.json"), "\(ended)")
        #expect(ended.output.contains("credential:c is there when systemd has started the unit"), "\(ended)")
    }
}
