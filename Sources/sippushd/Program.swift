import Foundation
import ProxyRuntime
import Reactor

/// The command line: finds the subcommand, prints help, turns failures into exit codes.
@main
struct Program {
    static func main() async {
        let words = Array(CommandLine.arguments.dropFirst())
        do throws(Command.Failure) {
            try hideMemory()
            try await run(words)
        } catch {
            switch error {
            case .usage(let sentence):
                complain("\(sentence)\nTry: sippushd --help")
                exit(64)
            case .failed(let sentence):
                complain(sentence)
                exit(1)
            }
        }
    }

    /// Before any password or key is read.
    private static func hideMemory() throws(Command.Failure) {
        do throws(SystemError) {
            try ProcessMemory.hide()
        } catch {
            throw .failed("passwords and keys cannot be kept out of core dumps: \(error)")
        }
    }

    private static func run(_ words: [String]) async throws(Command.Failure) {
        guard let first = words.first, first != "--help", first != "help" else {
            print(overview, terminator: "")
            return
        }
        if first == "--version" {
            print("sippushd \(Version.current)")
            return
        }
        let group = commands.filter { $0.name.hasPrefix(first + " ") }
        if !group.isEmpty, words.count == 1 || words[1] == "--help" {
            print(Self.list(group), terminator: "")
            return
        }
        guard let command = command(for: words) else {
            throw .usage("unknown command \"\(words.prefix(2).joined(separator: " "))\"")
        }
        let rest = Array(words.dropFirst(command.name.split(separator: " ").count))
        if rest.contains("--help") {
            print(command.help, terminator: "")
            return
        }
        try await command.run(command.parse(rest))
    }

    private static func command(for words: [String]) -> Command? {
        let two = words.prefix(2).joined(separator: " ")
        return commands.first { $0.name == two } ?? commands.first { $0.name == words.first }
    }

    private static var overview: String {
        var text = "sippushd \(Version.current): wakes sleeping SIP phones by push and delivers their calls.\n\n"
        text += "Usage: sippushd COMMAND [arguments] [options]\n\nCommands:\n"
        return text + list(commands) + "\nsippushd COMMAND --help tells more.\n"
    }

    private static func list(_ commands: [Command]) -> String {
        commands.map { ("  " + $0.name).padded(to: 22) + $0.summary + "\n" }.joined()
    }

    private static func complain(_ sentence: String) {
        FileHandle.standardError.write(Data("sippushd: \(sentence)\n".utf8))
    }
}
