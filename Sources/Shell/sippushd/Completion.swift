/// The completion scripts for shells, which are made from the descriptions of the commands.
enum Completion: String, CaseIterable {
    case bash
    case zsh
    case fish

    var script: String {
        switch self {
        case .bash: Self.bashScript
        case .zsh: Self.zshScript
        case .fish: Self.fishScript
        }
    }

    // MARK: Commands and options

    /// The first words of all commands, without duplicates.
    private static var firstWords: [String] {
        commands.reduce(into: []) { words, command in
            if words.last != command.firstWord, !words.contains(command.firstWord) { words.append(command.firstWord) }
        }
    }

    /// Returns the commands of two words that begin with the given word.
    private static func group(_ word: String) -> [Command] { commands.filter { $0.name.hasPrefix(word + " ") } }

    private static func summary(of word: String) -> String {
        commands.first { $0.name == word }?.summary
            ?? group(word).compactMap(\.secondWord).joined(separator: ", ")
    }

    /// The options of all commands that have a value, without duplicates. An option of several commands has the choices
    /// of all of them.
    private static var valued: [Command.Option] {
        var options: [Command.Option] = []
        for option in commands.flatMap(\.options) where option.value != nil {
            if let index = options.firstIndex(where: { $0.name == option.name }) {
                options[index].choices += option.choices.filter { !options[index].choices.contains($0) }
            } else {
                options.append(option)
            }
        }
        return options
    }

    // MARK: bash

    private static var bashScript: String {
        var text = """
            # Completion of sippushd for bash, printed by "sippushd completion bash".
            _sippushd() {
                local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words=
                COMPREPLY=()
                case $before in

            """
        for option in valued {
            let answer =
                option.takesFile
                ? "compopt -o filenames; COMPREPLY=($(compgen -f -- \"$word\"))"
                : "COMPREPLY=($(compgen -W \"\(option.choices.joined(separator: " "))\" -- \"$word\"))"
            text += "        \(option.name)) \(answer); return ;;\n"
        }
        text += """
                esac
                if [ "$COMP_CWORD" = 1 ]; then
                    words="\((firstWords + ["help", "--help", "--version"]).joined(separator: " "))"
                else
                    case "${COMP_WORDS[1]} ${COMP_WORDS[2]}" in

            """
        for command in commands {
            let pattern = command.secondWord == nil ? "\"\(command.name) \"*" : "\"\(command.name)\""
            let files = command.takesFiles ? " compopt -o filenames; COMPREPLY=($(compgen -f -- \"$word\"))" : ""
            text += "            \(pattern)) words=\"\(command.words.joined(separator: " "))\";\(files) ;;\n"
        }
        text += """
                    esac
                    if [ "$COMP_CWORD" = 2 ]; then
                        case ${COMP_WORDS[1]} in

            """
        for word in firstWords where !group(word).isEmpty {
            text +=
                "                \(word)) words=\"\(group(word).compactMap(\.secondWord).joined(separator: " "))\" ;;\n"
        }
        return text + """
                        esac
                    fi
                fi
                COMPREPLY+=($(compgen -W "$words" -- "$word"))
            }
            complete -F _sippushd sippushd

            """
    }

    // MARK: zsh

    private static var zshScript: String {
        var text = """
            #compdef sippushd
            # Completion of sippushd for zsh, printed by "sippushd completion zsh".
            _sippushd() {
                local -a names
                if (( CURRENT == 2 )); then
                    names=(

            """
        for word in firstWords { text += "            \(zshItem(word, summary(of: word)))\n" }
        text += "        )\n        _describe command names\n        return\n    fi\n"
        text += "    if (( CURRENT == 3 )); then\n        case $words[2] in\n"
        for word in firstWords where !group(word).isEmpty {
            let items = group(word).compactMap { command in command.secondWord.map { zshItem($0, command.summary) } }
            text += "            \(word)) names=(\(items.joined(separator: " "))); _describe command names; return ;;\n"
        }
        text += "        esac\n    fi\n    case \"$words[2] $words[3]\" in\n"
        for command in commands {
            let pattern = command.secondWord == nil ? "\"\(command.name) \"*" : "\"\(command.name)\""
            var specifications = command.options.map { option in
                let action = option.takesFile ? "_files" : "(\(option.choices.joined(separator: " ")))"
                let value = option.value.map { ":\($0):\(action)" } ?? ""
                return shellQuoted("\(option.name)[\(zshText(option.help))]\(value)")
            }
            specifications.append(shellQuoted("--help[Explain the command.]"))
            if command.takesFiles { specifications.append(shellQuoted("*:file:_files")) }
            if !command.choices.isEmpty {
                specifications.append(shellQuoted("1:word:(\(command.choices.joined(separator: " ")))"))
            }
            let skipped = command.secondWord == nil ? 1 : 2
            text += "        \(pattern)) shift \(skipped) words; (( CURRENT -= \(skipped) ))\n"
            text += "            _arguments \(specifications.joined(separator: " ")) ;;\n"
        }
        return text + "    esac\n}\n_sippushd \"$@\"\n"
    }

    private static func zshItem(_ word: String, _ text: String) -> String { shellQuoted("\(word):\(text)") }

    /// Escapes the characters that would end a description, such as brackets and colons.
    private static func zshText(_ text: String) -> String {
        text.reduce(into: "") { out, character in
            if "[]:\\".contains(character) { out += "\\" }
            out.append(character)
        }
    }

    // MARK: fish

    private static var fishScript: String {
        var text = """
            # Completion of sippushd for fish, printed by "sippushd completion fish".
            function __sippushd_at
                set -l words (commandline -opc)
                set -l wanted (string split ' ' -- $argv[1])
                test (count $words) -gt (count $wanted); or return 1
                test "$words[2..$(math (count $wanted) + 1)]" = "$argv[1]"
            end
            complete -c sippushd -f
            complete -c sippushd -n 'test (count (commandline -opc)) -eq 1' -l version -d 'Print the version.'

            """
        for word in firstWords {
            text += "complete -c sippushd -n 'test (count (commandline -opc)) -eq 1' -a \(word)"
            text += " -d \(fishQuoted(summary(of: word)))\n"
            for command in group(word) {
                guard let second = command.secondWord else { continue }
                text += "complete -c sippushd -n '__sippushd_at \(word); and test (count (commandline -opc)) -eq 2'"
                text += " -a \(second) -d \(fishQuoted(command.summary))\n"
            }
        }
        for command in commands {
            let place = "complete -c sippushd -n \(fishQuoted("__sippushd_at \"\(command.name)\""))"
            for option in command.options {
                text += "\(place) -l \(option.name.dropFirst(2)) -d \(fishQuoted(option.help))"
                if option.value != nil { text += option.takesFile ? " -r -F" : " -x" }
                if !option.choices.isEmpty { text += " -a \(fishQuoted(option.choices.joined(separator: " ")))" }
                text += "\n"
            }
            text += "\(place) -l help -d 'Explain the command.'\n"
            if command.takesFiles { text += "\(place) -F\n" }
            if !command.choices.isEmpty {
                text += "\(place) -a \(fishQuoted(command.choices.joined(separator: " ")))\n"
            }
        }
        return text
    }

    private static func shellQuoted(_ text: String) -> String {
        "'" + text.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "'\\''") + "'"
    }

    private static func fishQuoted(_ text: String) -> String {
        text.reduce(into: "'") { out, character in
            if character == "'" || character == "\\" { out += "\\" }
            out.append(character)
        } + "'"
    }
}

extension Command {
    fileprivate var firstWord: String { name.split(separator: " ").first.map(String.init) ?? name }

    fileprivate var secondWord: String? { name.split(separator: " ").dropFirst().first.map(String.init) }

    /// The words that an argument can be, if the argument is a choice of lower-case words. Arguments with other values,
    /// such as names, have no choices.
    fileprivate var choices: [String] {
        let words = arguments.split(separator: "|").map(String.init)
        return words.count > 1 && words.allSatisfy { $0 == $0.lowercased() } ? words : []
    }

    fileprivate var takesFiles: Bool { arguments == "FILE" || arguments.hasPrefix("[CERTIFICATE") }

    fileprivate var words: [String] { choices + options.map(\.name) + ["--help"] }
}

extension Command.Option {
    fileprivate var takesFile: Bool { value == "FILE" }
}
