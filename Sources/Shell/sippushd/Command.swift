import Control
import JSON
import Settings

/// One subcommand of the program: its name, its arguments and options, its help, and its function.
struct Command: Sendable {
    /// The first one or two words of the command line after `sippushd`, such as `user add`.
    let name: String
    let summary: String
    /// The arguments of the command, as the usage line shows them; empty for a command without arguments.
    var arguments = ""
    let options: [Option]
    /// Examples for the help: complete command lines without `sippushd`.
    let examples: [String]
    let run: @Sendable (Invocation) async throws(Failure) -> Void

    struct Option: Sendable {
        let name: String
        /// The placeholder for the option's value in the help; `nil` for an option without a value.
        let value: String?
        let help: String
        /// The allowed values of the option for the help; empty for an option with other values.
        var choices: [String] = []
    }

    /// A command line, separated into arguments and options.
    struct Invocation {
        let arguments: [String]
        /// The values of each option, in the order of the command line. An option without a value has an empty text.
        let options: [String: [String]]

        /// The value of an option. If the option is repeated, the last value counts.
        func value(_ option: String) -> String? { options[option]?.last }
        /// All values of an option that can be repeated.
        func values(_ option: String) -> [String] { options[option] ?? [] }
        func has(_ option: String) -> Bool { options[option] != nil }
    }

    /// Why the program ends with a status other than 0.
    enum Failure: Error {
        /// The command line is wrong: the exit status is 64, and the output refers to `--help`.
        case usage(String)
        /// The command failed although its command line is right: the exit status is 1.
        case failed(lines: [String])
        /// The command has already printed its output, and ends with the given exit status.
        case ended(Int32)

        static func failed(_ sentence: String) -> Failure { .failed(lines: [sentence]) }

        /// Creates a failure from a text of several lines.
        static func failed(text: String) -> Failure {
            .failed(lines: text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init))
        }
    }

    static let configOption = Option(
        name: "--config", value: "FILE",
        help: "The configuration file (default: the file in the variable \(configVariable), else \(defaultConfig)).")

    /// The options of commands that print a list.
    static let listOptions = [
        configOption,
        Option(name: "--json", value: nil, help: "Print the list as JSON. The JSON has all values of each entry."),
    ]

    static let configVariable = "SIPPUSHD_CONFIG"
    static let defaultConfig = "/etc/sippushd/sippushd.yaml"

    func parse(_ words: [String]) throws(Failure) -> Invocation {
        var arguments: [String] = []
        var found: [String: [String]] = [:]
        var rest = words[...]
        while let word = rest.popFirst() {
            if word == "--" {
                arguments += rest
                break
            }
            guard word.hasPrefix("-"), word.count > 1 else {
                arguments.append(word)
                continue
            }
            let parts = word.split(separator: "=", maxSplits: 1).map(String.init)
            guard let name = parts.first, let option = options.first(where: { $0.name == name }) else {
                let names = options.map(\.name) + ["--help"]
                throw .usage(
                    "unknown option \(word) for \"\(self.name)\""
                        + EditDistance.hint(for: parts.first ?? word, among: names))
            }
            if option.value == nil {
                guard parts.count == 1 else { throw .usage("the option \(name) takes no value") }
                found[name, default: []].append("")
            } else if parts.count == 2 {
                found[name, default: []].append(parts[1])
            } else {
                guard let value = rest.popFirst() else { throw .usage("the option \(name) needs a value") }
                found[name, default: []].append(value)
            }
        }
        let invocation = Invocation(arguments: arguments, options: found)
        if self.arguments.isEmpty { try invocation.expect(arguments: 0) }
        return invocation
    }

    var help: String {
        var text = "Usage: sippushd \(name)\(arguments.isEmpty ? "" : " " + arguments)"
        text += options.isEmpty ? "\n" : " [options]\n"
        text += "\n\(summary)\n"
        if !options.isEmpty { text += "\nOptions:\n" }
        for option in options {
            let head = "  " + option.name + (option.value.map { " \($0)" } ?? "")
            text += head.padded(to: 26) + option.help + "\n"
        }
        text += examples.count == 1 ? "\nExample:\n" : "\nExamples:\n"
        for example in examples { text += "  sippushd \(example)\n" }
        return text
    }
}

extension Command.Invocation {
    /// Prints a list as JSON if the option `--json` is given.
    ///
    /// - Returns: whether the function printed the list.
    func printJSON(_ list: some Encodable) throws(Command.Failure) -> Bool {
        guard has("--json") else { return false }
        guard let json = try? JSONValue(of: list) else {
            throw .failed("the daemon's answer cannot be printed as JSON")
        }
        say(json: String(decoding: json.lines, as: UTF8.self))
        return true
    }
}
