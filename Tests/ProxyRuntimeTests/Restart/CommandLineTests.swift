import Foundation
import LoopTesting
import Reactor
import Testing

@testable import ProxyRuntime

/// Commands as operators type them: status 0 for done, 64 for a command line that is wrong, 1 for what did not work, and a
/// sentence for it.
@Suite("The command line", .timeLimit(.minutes(3)), .serialized)
struct CommandLineTests {
    private let folder: StoreFolder
    private var file: String { folder.folder + "/commands.yaml" }

    init() throws {
        folder = try StoreFolder()
        try Data(settings.utf8).write(to: URL(filePath: folder.folder + "/commands.yaml"))
    }

    private var settings: String {
        DaemonProgram.settings(
            folder,
            """
            push:
              acrobits:
                enabled: true
            """)
    }

    private func run(_ arguments: [String], input: String = "") async throws -> DaemonProgram.Ended {
        try await DaemonProgram.run(arguments + ["--config", file], input: input, in: folder)
    }

    private func expect(
        _ arguments: [String], input: String = "", _ status: Int32, _ sentence: String,
        _ location: SourceLocation = #_sourceLocation
    ) async throws {
        let ended = try await run(arguments, input: input)
        #expect(ended.status == status, "\(arguments): \(ended)", sourceLocation: location)
        let text = status == 0 ? ended.output : ended.complaint
        #expect(text.contains(sentence), "\(arguments): \(ended)", sourceLocation: location)
        #expect(status == 0 || ended.complaint.hasPrefix("sippushd: "), "\(ended)", sourceLocation: location)
        // One cause, one sentence: no trace, no name of a type.
        for word in ["Fatal", "Error(", ".swift"] {
            #expect(!ended.complaint.contains(word), "\(ended)", sourceLocation: location)
        }
    }

    @Test func `wrong command lines end with 64 and say why`() async throws {
        for (arguments, sentence) in [
            (["bogus"], "unknown command \"bogus"), (["user", "bogus"], "unknown command \"user bogus\""),
            (["user", "add"], "expected one argument: USER@DOMAIN"),
            (["user", "list", "x"], "expected 0 arguments, found 1"),
            (["apikey", "list", "--nope"], "unknown option --nope"),
            (["apikey", "add", "a b", "--scope", "admin"], "the name is up to 64 letters"),
            (["apikey", "add", "../x", "--scope", "admin"], "the name is up to 64 letters"),
            (["apikey", "add", "x"], "expected --scope"), (["apikey", "add", "x", "--scope", "all"], "--scope takes"),
            (["explain", "x", "--limit", "0"], "--limit takes 1 to 1000"),
            (["binding", "remove", "x"], "expected 2 arguments"),
            (["explain", "x", "--limit"], "unknown option"),
        ] {
            // The last lacks its value, so the configuration is taken for it.
            let isLast = arguments.last == "--limit"
            let ended = try await run(arguments)
            #expect(ended.status == 64, "\(arguments): \(ended)")
            #expect(isLast || ended.complaint.contains(sentence), "\(arguments): \(ended)")
            #expect(ended.complaint.hasSuffix("Try: sippushd --help\n"), "\(ended)")
        }
        for arguments in [["--help"], ["--version"], ["user"], ["explain", "--help"]] {
            let ended = try await DaemonProgram.run(arguments, in: folder)
            #expect(ended.status == 0 && !ended.output.isEmpty && ended.complaint.isEmpty, "\(ended)")
        }
        let none = try await DaemonProgram.run(["user", "list", "--config", "/none.yaml"], in: folder)
        #expect(none.status == 1 && none.complaint.contains("the configuration cannot be used"), "\(none)")
    }

    @Test func `without a daemon, what needs one says that there is none`() async throws {
        for arguments in [
            ["held", "list"], ["held", "end", "7"], ["bucket", "show", "100@example.net"],
            ["bucket", "empty", "100@example.net"], ["binding", "show", "100@example.net"],
            ["binding", "remove", "100@example.net", "7"], ["provider", "list"], ["provider", "disable", "acrobits"],
            ["explain", "100@example.net"], ["metrics"], ["feedback", "pull"],
        ] {
            try await expect(arguments, 1, "no daemon answers on \(folder.folder)/control.sock")
        }
    }

    @Test func `without a daemon, keys and users are those of the store`() async throws {
        try await keysAndUsers()
    }

    /// The same words with a daemon and without.
    private func keysAndUsers() async throws {
        try await expect(["apikey", "add", "shop", "--scope", "pushes"], 0, "spd_")
        try await expect(["apikey", "add", "shop", "--scope", "pushes"], 1, "a key is called shop already")
        try await expect(["apikey", "list"], 0, "shop")
        try await expect(["apikey", "remove", "shop"], 0, "removed")
        try await expect(["apikey", "remove", "shop"], 1, "no key is called shop")
        for name in [
            "100@example.net", "a%2Fb@example.net", "jörg müller@example.net", "a?b&c#d+e@example.net",
            "..@example.net",
        ] {
            try await expect(["user", "add", name, "--password-stdin"], input: "secret\n", 0, "added")
            try await expect(["user", "list"], 0, name)
            try await expect(["user", "passwd", name, "--password-stdin"], input: "other\n", 0, "changed")
            try await expect(["user", "remove", name], 0, "removed")
            try await expect(["user", "remove", name], 1, "no user is called \(name)")
        }
        try await expect(
            ["user", "passwd", "x@example.net", "--password-stdin"], input: "other\n", 1, "no user is called")
        try await expect(["user", "add", "a/b@example.net", "--password-stdin"], input: "x\n", 1, "without slashes")
        try await expect(
            ["user", "add", "100@example.net", "--password-stdin"], input: "\n", 1, "the password is empty")
        try await expect(["user", "add", "100", "--password-stdin"], input: "x\n", 64, "the name must be user@domain")
        try await expect(
            ["user", "add", "100@example.com", "--password-stdin"], input: "x\n", 64,
            "example.com is not one of this daemon's domains")
        try await expect(["app", "remove", "x"], 1, "no app is called x")
    }

    @Test func `a daemon is asked, whatever the name`() async throws {
        try await DaemonProgram.with(settings: settings, in: folder) { _ in try await asking() }
    }

    private func asking() async throws {
        try await keysAndUsers()
        for name in ["a/b%2Fc\\d", "jörg müller", "..", "a?b&c#d+e;f"] {
            try await expect(["bucket", "show", "\(name)@example.net"], 0, "CALLER")
            try await expect(["bucket", "empty", "\(name)@example.net"], 0, "0 forgotten")
            try await expect(["binding", "show", "\(name)@example.net"], 0, "DEVICE")
            try await expect(["binding", "remove", "\(name)@example.net", "7"], 1, "no such device")
            try await expect(["explain", "\(name)@example.net"], 1, "\(name)@example.net")
            try await expect(["explain", name], 1, name)
            try await expect(["held", "end", name], 1, "no such call")
            try await expect(["provider", "enable", name], 1, "no provider is called \(name)")
            try await expect(["apikey", "remove", name], 1, "no key is called \(name)")
            try await expect(["app", "remove", name], 1, "no app is called \(name)")
        }
        try await expect(["bucket", "show", "bob"], 1, "expected user@domain")
        try await expect(["held", "list"], 0, "SLEEPING")
        try await expect(["held", "end", "7", "--status", "200"], 1, "status is one of 480, 486, 600, 603")
        try await expect(["provider", "disable", "acrobits"], 0, "acrobits is off")
        try await expect(["provider", "list"], 0, "off")
        try await expect(["provider", "enable", "apns"], 1, "apns is not configured")
        try await expect(["metrics"], 0, "sippushd_bindings 0")
        try await expect(["feedback", "pull"], 1, "push.apns.feedback.endpoint is not set")
    }

    @Test func `a daemon that is there and does not answer keeps its store to itself`() async throws {
        try await expect(["apikey", "add", "shop", "--scope", "pushes"], 0, "spd_")
        try await withLoop { loop in
            let path = folder.folder + "/control.sock"
            let listener = try await Bench(loop).run { bench in
                try Closing(StreamListener(unixPath: path, on: bench.loop, limit: 10) { $0.close() })
            }
            for arguments in [["apikey", "remove", "shop"], ["apikey", "list"], ["user", "list"], ["app", "list"]] {
                try await expect(arguments, 1, "the daemon on \(path) does not answer")
            }
            await Bench(loop).run { _ in listener.close() }
        }
        #expect(try OfflineStore(path: folder.path).keys().map(\.name) == ["shop"])
    }

    /// - `@unchecked Sendable` because the loop alone uses it.
    private final class Closing: @unchecked Sendable {
        private var listener: StreamListener?

        init(_ listener: StreamListener) { self.listener = listener }

        func close() { listener = nil }
    }
}
