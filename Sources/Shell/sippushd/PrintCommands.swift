// Commands that print the files of a package: completion scripts and manual pages.

let completionCommand = Command(
    name: "completion",
    summary: "Print a script with which a shell completes the commands and options of sippushd.",
    arguments: Completion.allCases.map(\.rawValue).joined(separator: "|"), options: [],
    examples: ["completion bash"]
) { invocation throws(Command.Failure) in
    let name = try invocation.onlyArgument("the name of a shell, such as bash")
    guard let shell = Completion(rawValue: name) else {
        throw .usage("expected \(Completion.allCases.map(\.rawValue).joined(separator: ", "))")
    }
    say(text: shell.script)
}

let manPageCommand = Command(
    name: "man-page", summary: "Print the manual page of sippushd or of its settings, for the command 'man -l'.",
    arguments: ManPage.allCases.map(\.rawValue).joined(separator: "|"), options: [],
    examples: ["man-page sippushd.yaml"]
) { invocation throws(Command.Failure) in
    let name = try invocation.onlyArgument("the name of a manual page")
    guard let page = ManPage(rawValue: name) else {
        throw .usage("expected \(ManPage.allCases.map(\.rawValue).joined(separator: ", "))")
    }
    say(text: page.text(date: ManPage.date))
}
