import Foundation
import JSON
import LoopTesting
import Reactor
import StoreTesting
import TestSupport
import Testing

@testable import Control

/// Tests commands as operators type them. Each command ends with status 0 for success, 64 for an invalid command line,
/// or 1 for a failure with one sentence.
@Suite("The command line", .timeLimit(.minutes(10)), .serialized)
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
        // The error message must contain neither a stack trace nor the name of a Swift type.
        for word in ["Fatal", "Error(", ".swift"] {
            #expect(!ended.complaint.contains(word), "\(ended)", sourceLocation: location)
        }
    }

    @Test func `wrong command lines end with 64 and a reason`() async throws {
        for (arguments, sentence) in [
            (["bogus"], "unknown command \"bogus"), (["user", "bogus"], "unknown command \"user bogus\""),
            (["user", "add"], "expected one argument: USER[@DOMAIN]"),
            (["lst"], "unknown command \"lst\""), (["serv"], "unknown command \"serv\"; did you mean \"serve\"?"),
            (["exlain", "bob"], "unknown command \"exlain bob\"; did you mean \"explain\"?"),
            (["usr", "list"], "unknown command \"usr list\"; did you mean \"user list\"?"),
            (["usr"], "unknown command \"usr\"; did you mean \"user\"?"),
            (["user", "lsit"], "unknown command \"user lsit\"; did you mean \"user list\"?"),
            (
                ["user", "delete", "bob"],
                "after \"user\" comes add, remove, list, passwd, rules, import, export, qr, links or revoke-link"
            ),
            (
                ["apikey", "add", "x", "--scpe", "admin"],
                "unknown option --scpe for \"apikey add\"; did you mean \"--scope\"?"
            ),
            (["user", "list", "--jsno"], "did you mean \"--json\"?"), (["user", "list", "-j"], "unknown option -j"),
            (["user", "list", "x"], "expected 0 arguments, found 1"),
            (["apikey", "add", "x", "--scope", "admin", "--domains", "a,,b"], "--domains takes names of domains"),
            (["apikey", "add", "x", "--scope", "admin", "--domains", ""], "--domains takes names of domains"),
            (["apikey", "list", "--nope"], "unknown option --nope"),
            (["apikey", "add", "a b", "--scope", "admin"], "the name is up to 64 letters"),
            (["apikey", "add", "../x", "--scope", "admin"], "the name is up to 64 letters"),
            (["apikey", "add", "x"], "expected --scope"), (["apikey", "add", "x", "--scope", "all"], "--scope takes"),
            (["explain", "x", "--limit", "0"], "--limit takes 1 to 1000"),
            (["device", "remove", "x"], "expected 2 arguments"),
            (["explain", "x", "--limit"], "unknown option"),
        ] {
            // The last option has no value, so the program takes the next argument, the path of the configuration, as
            // its value.
            let isLast = arguments.last == "--limit"
            let ended = try await run(arguments)
            #expect(ended.status == 64, "\(arguments): \(ended)")
            #expect(isLast || ended.complaint.contains(sentence), "\(arguments): \(ended)")
            let command = arguments[0] == "explain" ? "explain " : arguments.prefix(2).joined(separator: " ") + " "
            let named = ended.complaint.contains("unknown command") ? "" : command
            #expect(ended.complaint.hasSuffix("Try: sippushd \(named)--help\n"), "\(ended)")
        }
        for arguments in [
            ["--help"], ["-h"], ["help"], ["help", "user"], ["help", "user", "add"], ["user", "add", "-h"],
            ["--version"], ["user"], ["explain", "--help"],
        ] {
            let ended = try await DaemonProgram.run(arguments, in: folder)
            #expect(ended.status == 0 && !ended.output.isEmpty && ended.complaint.isEmpty, "\(ended)")
        }
        // The program never treats a word after "--" as an option.
        let dashed = try await DaemonProgram.run(["apikey", "remove", "--config", file, "--", "--help"], in: folder)
        #expect(dashed.status == 1 && dashed.complaint.contains("no key is called --help"), "\(dashed)")
        let none = try await DaemonProgram.run(["user", "list", "--config", "/none.yaml"], in: folder)
        #expect(none.status == 1 && none.complaint.contains("the configuration cannot be used"), "\(none)")
    }

    @Test func `without a daemon, commands that need one report that none runs`() async throws {
        for arguments in [
            ["held", "list"], ["held", "end", "7"], ["bucket", "show", "100@example.net"],
            ["bucket", "empty", "100@example.net"], ["device", "show", "100@example.net"],
            ["device", "remove", "100@example.net", "7"], ["provider", "list"], ["provider", "disable", "acrobits"],
            ["provider", "disable", "acrobits", "--yes"], ["provider", "pause", "acrobits"],
            ["provider", "resume", "acrobits"],
            ["explain", "100@example.net"], ["metrics"], ["feedback", "pull"],
        ] {
            try await expect(arguments, 1, "no daemon answers on \(folder.folder)/control.sock")
        }
    }

    @Test func `without a daemon, keys and users are those of the store`() async throws {
        try await keysAndUsers()
    }

    /// Tests that the messages are the same whether or not a daemon runs.
    private func keysAndUsers() async throws {
        try await expect(["apikey", "add", "shop", "--scope", "pushes"], 0, "spd_")
        try await expect(["apikey", "add", "shop", "--scope", "pushes"], 1, "a key named shop exists already")
        try await expect(["apikey", "add", "branch", "--scope", "admin", "--domains", "Example.NET"], 0, "spd_")
        try await expect(
            ["apikey", "add", "other", "--scope", "admin", "--domains", "example.com"], 1,
            "example.com is not one of this daemon's domains")
        try await expect(["apikey", "list"], 0, "shop")
        try await expect(["apikey", "list", "--json"], 0, "example.net")
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
        // Without a domain, the command uses the first domain.
        try await expect(["user", "add", "bob", "--password-stdin"], input: "secret\n", 0, "added")
        try await expect(["user", "list"], 0, "bob@example.net\n")
        try await expect(["user", "passwd", "bob@example.net", "--password-stdin"], input: "other\n", 0, "changed")
        try await expect(["user", "passwd", "bob", "--password-stdin"], input: "other\n", 0, "changed")
        try await expect(["user", "remove", "bob"], 0, "removed")
        try await expect(["user", "remove", "bob"], 1, "no user is called bob@example.net")
        try await expect(["user", "add", "@example.net", "--password-stdin"], input: "x\n", 64, "must be user@domain")
        try await expect(
            ["user", "add", "100@example.com", "--password-stdin"], input: "x\n", 64,
            "example.com is not one of this daemon's domains")
        try await expect(["app", "remove", "x"], 1, "no app is called x")
    }

    @Test func `the daemon is asked, with any name of the command`() async throws {
        try await DaemonProgram.with(settings: settings, in: folder) { _ in try await asking() }
    }

    private func asking() async throws {
        try await keysAndUsers()
        for name in ["a/b%2Fc\\d", "jörg müller", "..", "a?b&c#d+e;f"] {
            try await expect(["bucket", "show", "\(name)@example.net"], 0, "CALLER")
            try await expect(["bucket", "empty", "\(name)@example.net"], 0, "0 forgotten")
            try await expect(["device", "show", "\(name)@example.net"], 1, "\(name)@example.net")
            try await expect(["device", "remove", "\(name)@example.net", "7"], 1, "no such device")
            try await expect(["explain", "\(name)@example.net"], 1, "\(name)@example.net")
            try await expect(["explain", name], 1, name)
            try await expect(["held", "end", name], 1, "no such call")
            try await expect(["provider", "enable", name], 1, "no provider is called \(name)")
            try await expect(["apikey", "remove", name], 1, "no key is called \(name)")
            try await expect(["app", "remove", name], 1, "no app is called \(name)")
        }
        try await expect(["bucket", "show", "bob"], 0, "CALLER")
        try await expect(["provider", "disable", "acrobits/shop"], 1, "it is an app of acrobits")
        try await expect(["held", "list"], 0, "SLEEPING")
        try await expect(["held", "end", "7", "--status", "200"], 1, "status is one of 480, 486, 600, 603")
        try await expect(["provider", "pause", "acrobits"], 0, "acrobits is paused")
        try await expect(["provider", "list"], 0, "paused")
        try await expect(["provider", "resume", "acrobits"], 0, "acrobits is on")
        try await expect(
            ["provider", "disable", "acrobits"], 1,
            "nothing was changed; with --yes, this command would end 0 expired contacts")
        try await expect(["provider", "list"], 0, "on")
        try await expect(
            ["provider", "disable", "acrobits", "--yes"], 0,
            "the provider acrobits is off, which ended 0 expired contacts")
        try await expect(["provider", "list"], 0, "off")
        try await expect(["provider", "pause", "acrobits"], 1, "acrobits is off: enable it first")
        try await expect(["provider", "enable", "apns"], 1, "apns is not configured")
        try await expect(["metrics"], 0, "sippushd_bindings 0")
        try await expect(["feedback", "pull"], 1, "push.apns.feedback.endpoint is not set")
    }

    @Test func `the variable names the configuration, and the option wins`() async throws {
        let variables = ["SIPPUSHD_CONFIG": file]
        let found = try await DaemonProgram.run(["user", "list"], in: folder, variables: variables)
        #expect(found.status == 0, "\(found)")
        let checked = try await DaemonProgram.run(["check-config"], in: folder, variables: variables)
        #expect(checked.status == 0 && checked.output.contains(file), "\(checked)")
        let other = try await DaemonProgram.run(
            ["user", "list", "--config", "/none.yaml"], in: folder, variables: variables)
        #expect(other.status == 1 && other.complaint.contains("/none.yaml"), "\(other)")
        let usual = try await DaemonProgram.run(["user", "list"], in: folder, variables: ["SIPPUSHD_CONFIG": ""])
        #expect(usual.status == 1 && usual.complaint.contains("/etc/sippushd/sippushd.yaml"), "\(usual)")
    }

    private func list(_ arguments: [String]) async throws -> [JSONValue] {
        let ended = try await run(arguments + ["--json"])
        #expect(ended.status == 0, "\(arguments): \(ended)")
        return try #require(try JSONValue(Array(ended.output.utf8)).array)
    }

    @Test func `each list is given as JSON too, with and without a daemon`() async throws {
        try await expect(["apikey", "add", "shop", "--scope", "pushes"], 0, "spd_")
        try await expect(["app", "add", "store", "--org", "o"], 0, "ApiToken")
        try await expect(["user", "add", "bob", "--password-stdin"], input: "secret\n", 0, "added")
        func stored() async throws {
            #expect(try await list(["user", "list"]).map { $0["name"]?.string } == ["bob@example.net"])
            #expect(try await list(["apikey", "list"]).map { $0["scopes"]?.string } == ["pushes"])
            #expect(try await list(["app", "list"]).map { $0["org"]?.string } == ["o"])
        }
        try await stored()
        try await DaemonProgram.with(settings: settings, in: folder) { _ in
            try await stored()
            #expect(try await list(["provider", "list"]).map { $0["name"]?.string } == ["acrobits"])
            for empty in [["held", "list"], ["bucket", "show", "bob"], ["device", "show", "bob"]] {
                #expect(try await list(empty).isEmpty)
            }
            let app = try #require(try await list(["app", "list"]).first?["id"]?.string)
            try await expect(["app", "remove", app], 0, "removed")
        }
        try await expect(["app", "add", "store", "--org", "o"], 0, "ApiToken")
        let app = try #require(try await list(["app", "list"]).first?["id"]?.string)
        try await expect(["app", "remove", app], 0, "removed")
    }

    /// Later commands accept the names of devices that lists show, and the record ids, call references and Call-IDs of
    /// held calls.
    @Test func `names from the output of one command are accepted by the next`() async throws {
        try await withLoop { loop in
            let (phone, pbx) = (Outside(loop), Outside(loop))
            let mediator = try await phone.open()
            _ = try await pbx.open()
            let settings = DaemonProgram.settings(
                folder,
                """
                trusted: ["\(await pbx.local)"]
                push:
                  acrobits:
                    enabled: true
                    endpoint: \(mediator)
                """)
            try await DaemonProgram.with(settings: settings, in: folder) { daemon in
                let place = await phone.local
                await phone.send(
                    SIPText.register(
                        user: "bob", from: place, callID: "r", cseq: 1, branch: "r",
                        contact: "<sip:bob@\(place);pn-provider=acrobits;pn-param=app:S1;pn-prid=Q2FsbHM>"),
                    to: daemon.sip)
                _ = try await phone.message("SIP/2.0 200")
                try await passedOn(to: daemon, from: pbx)
            }
            for outside in [phone, pbx] { await outside.close() }
        }
    }

    private func passedOn(to daemon: DaemonProgram, from pbx: Outside) async throws {
        let device = try #require(try await list(["device", "show", "bob"]).first)
        let name = try #require(device["name"]?.string)
        #expect(name.count == 5)
        try await expect(["device", "show", "bob"], 0, name + " ")

        for (number, member) in ["id", "callRef", "callID"].enumerated() {
            let invite = SIPText.invite(
                to: "bob", from: "103", at: await pbx.local, callID: "c\(number)@pbx/x", branch: "i\(number)")
            await pbx.send(invite, to: daemon.sip)
            _ = try await pbx.message("SIP/2.0 100", of: "c\(number)")
            let held = try await list(["held", "list"])
            let told = try await run(["explain", "bob"])
            let call = try #require(held.first, "\(told)")
            #expect(call["sleepingDevices"]?.array?.map(\.string) == [name], "\(call)")
            let line = try await run(["held", "list"]).output
            let row = try #require(line.split(separator: "\n").last)
            try await expect(["explain", String(row.prefix { $0 != " " })], 0, "push to device \(name)")
            for shown in ["callRef", "callID"] {
                let shown = try #require(call[shown]?.string)
                #expect(line.contains(shown), "\(line)")
                try await expect(["explain", shown], 0, "push to device \(name)")
            }
            try await expect(["explain", "bob"], 0, "device \(name)")
            let id = try #require(call[member])
            try await expect(["held", "end", id.string ?? "\(try #require(id.integer))"], 0, "ended")
            _ = try await pbx.message("SIP/2.0 480", of: "c\(number)")
        }
        let missed = try await list(["bucket", "show", "bob"])
        #expect(missed.map { $0["devices"]?.array?.map(\.string) } == [[name], [name], [name]])
        for call in missed {
            try await expect(["explain", try #require(call["callRef"]?.string)], 0, "push to device \(name)")
        }
        try await expect(["device", "remove", "bob", "zzzzz"], 1, "no such device")
        try await expect(["device", "remove", "bob", name.uppercased()], 0, "removed")
        #expect(try await list(["device", "show", "bob"]).isEmpty)
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
        #expect(try OfflineStore(folder.place).keys().map(\.name) == ["shop"])
    }

    /// Keeps a listener until the test closes it. The type is `@unchecked Sendable`, because only the loop's thread
    /// uses it.
    private final class Closing: @unchecked Sendable {
        private var listener: StreamListener?

        init(_ listener: StreamListener) { self.listener = listener }

        func close() { listener = nil }
    }
}
