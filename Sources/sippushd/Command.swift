/// One subcommand: what it is called, what it takes, and what it does.
struct Command: Sendable {
    /// As typed after `sippushd`: one word or two.
    let name: String
    let summary: String
    /// What stands after the name in the usage line.
    let arguments: String
    let options: [Option]
    let run: @Sendable (Invocation) async throws(Failure) -> Void

    struct Option: Sendable {
        let name: String
        /// `nil` for a switch.
        let value: String?
        let help: String
    }

    /// The words a user typed, sorted into options and the rest.
    struct Invocation {
        let arguments: [String]
        let options: [String: String]

        func value(_ option: String) -> String? { options[option] }
        func has(_ option: String) -> Bool { options[option] != nil }
    }

    /// Why the program ends with a status other than 0.
    enum Failure: Error {
        /// The command line was wrong; status 64, with a pointer to `--help`.
        case usage(String)
        /// Something did not work; status 1.
        case failed(String)
    }

    static let configOption = Option(
        name: "--config", value: "FILE", help: "The configuration file (default: /etc/sippushd/sippushd.yaml).")

    static let defaultConfig = "/etc/sippushd/sippushd.yaml"

    func parse(_ words: [String]) throws(Failure) -> Invocation {
        var arguments: [String] = []
        var found: [String: String] = [:]
        var rest = words[...]
        while let word = rest.popFirst() {
            guard word.hasPrefix("--") else {
                arguments.append(word)
                continue
            }
            let parts = word.split(separator: "=", maxSplits: 1).map(String.init)
            guard let name = parts.first, let option = options.first(where: { $0.name == name }) else {
                throw .usage("unknown option \(word) for \"\(self.name)\"")
            }
            if option.value == nil {
                guard parts.count == 1 else { throw .usage("\(name) takes no value") }
                found[name] = ""
            } else if parts.count == 2 {
                found[name] = parts[1]
            } else {
                guard let value = rest.popFirst() else { throw .usage("\(name) needs a value") }
                found[name] = value
            }
        }
        return Invocation(arguments: arguments, options: found)
    }

    var help: String {
        var text = "Usage: sippushd \(name)\(arguments.isEmpty ? "" : " " + arguments)"
        text += options.isEmpty ? "\n" : " [options]\n"
        text += "\n\(summary)\n"
        guard !options.isEmpty else { return text }
        text += "\nOptions:\n"
        for option in options {
            let head = "  " + option.name + (option.value.map { " \($0)" } ?? "")
            text += head.padded(to: 26) + option.help + "\n"
        }
        return text
    }
}

extension String {
    func padded(to width: Int) -> String {
        count < width ? self + String(repeating: " ", count: width - count) : self + " "
    }
}
