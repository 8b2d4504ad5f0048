import Control
import Dispatch
import Glibc
import ProxyRuntime
import Reactor
import Settings

/// The command line: finds the subcommand, prints help, and converts errors to exit statuses.
@main
struct Program {
    /// Waits on the main thread until the command has ended. An asynchronous `main` would end the main thread at its
    /// first wait, and `ps`, debuggers and valgrind would show a dead process.
    static func main() {
        let done = DispatchSemaphore(value: 0)
        Task.detached {
            await runCommand()
            done.signal()
        }
        done.wait()
    }

    private static func runCommand() async {
        let words = Array(CommandLine.arguments.dropFirst())
        do throws(Command.Failure) {
            try hideMemory()
            try await run(words)
        } catch {
            switch error {
            case .usage(let sentence):
                complain([sentence, "Try: sippushd \(command(for: words).map { "\($0.name) " } ?? "")--help"])
                exit(64)
            case .failed(let lines):
                complain(lines)
                exit(1)
            case .ended(let status): exit(status)
            }
        }
    }

    /// Keeps passwords and keys out of core dumps; called before any password or key is read.
    private static func hideMemory() throws(Command.Failure) {
        do throws(SystemError) {
            try ProcessMemory.hide()
        } catch {
            throw .failed("cannot keep passwords and keys out of core dumps: \(error)")
        }
    }

    private static func run(_ words: [String]) async throws(Command.Failure) {
        guard let first = words.first, !helpWords.contains(first), first != "help" || words.count > 1 else {
            say(text: overview)
            return
        }
        // "help user add" has the same meaning as "user add --help".
        if first == "help" { return try await run(words.dropFirst() + ["--help"]) }
        if first == "--version" {
            say("sippushd \(Version.current) (commit \(Version.commit))")
            return
        }
        let group = commands.filter { $0.name.hasPrefix(first + " ") }
        if !group.isEmpty, words.count == 1 || helpWords.contains(words[1]) {
            say(text: Self.list(group))
            return
        }
        guard let command = command(for: words) else {
            throw .usage(unknown(words, group))
        }
        let rest = Array(words.dropFirst(command.name.split(separator: " ").count))
        if rest.prefix(while: { $0 != "--" }).contains(where: helpWords.contains) {
            say(text: command.help)
            return
        }
        try await command.run(command.parse(rest))
    }

    private static func command(for words: [String]) -> Command? {
        let two = words.prefix(2).joined(separator: " ")
        return commands.first { $0.name == two } ?? commands.first { $0.name == words.first }
    }

    private static let helpWords: Set = ["--help", "-h"]

    /// The error for a command that does not exist. The parameter `group` has the commands with the same first word.
    private static func unknown(_ words: [String], _ group: [Command]) -> String {
        let first = words.first ?? ""
        guard let second = words.dropFirst().first, !second.hasPrefix("-") else {
            let names = Set(commands.compactMap { $0.name.split(separator: " ").first.map(String.init) })
            return "unknown command \"\(first)\"" + EditDistance.hint(for: first, among: names.sorted())
        }
        let sentence = "unknown command \"\(first) \(second)\""
        guard !group.isEmpty else {
            // For the input "usr list", the hint is the similar command "user list". For "serv now", only the first
            // word is compared, and the hint is "serve".
            let whole = EditDistance.hint(for: "\(first) \(second)", among: commands.map(\.name))
            return sentence
                + (whole.isEmpty
                    ? EditDistance.hint(for: first, among: commands.map(\.name).filter { !$0.contains(" ") }) : whole)
        }
        let names = group.compactMap { $0.name.split(separator: " ").last.map(String.init) }
        guard let near = EditDistance.nearest(to: second, among: names) else {
            return "\(sentence); after \"\(first)\" comes \(EditDistance.alternatives(names))"
        }
        return "\(sentence); did you mean \"\(first) \(near)\"?"
    }

    private static var overview: String {
        var text = "sippushd \(Version.current): wakes sleeping SIP phones by push and delivers their calls.\n\n"
        text += "Usage: sippushd COMMAND [arguments] [options]\n\nCommands:\n"
        return text + list(commands) + """

            sippushd COMMAND --help shows arguments, options and an example. The configuration is read from --config FILE,
            otherwise from $\(Command.configVariable), otherwise from \(Command.defaultConfig). A user without a domain belongs
            to the first domain. Lists print JSON with --json. Commands accept the names of devices and calls that lists and log lines show.

            """
    }

    private static func list(_ commands: [Command]) -> String {
        commands.map { ("  " + $0.name).padded(to: 22) + $0.summary + "\n" }.joined()
    }
}
