import Control

let explainCommand = Command(
    name: "explain",
    summary: "Explain step by step how the daemon woke a phone for a call, or why the daemon woke no phone.",
    arguments: "USER[@DOMAIN]|CALL-ID|CALL-NAME|PUSH-CODE|SOURCE-ADDRESS|CALLED-NUMBER",
    options: [
        Command.configOption,
        Command.Option(name: "--limit", value: "N", help: "Show at most the last N records (default: 20)."),
        Command.Option(name: "--json", value: nil, help: "Print the records as JSON."),
    ],
    examples: ["explain bob", "explain a84b4c76e66710@pbx --limit 5"]
) { invocation throws(Command.Failure) in
    let name = try invocation.onlyArgument(
        "a user, a Call-ID, a call's short name, the code of a push, the address of a refused caller, or a called number"
    )
    let limit = invocation.value("--limit") ?? "20"
    guard let number = Int(limit), (1...1000).contains(number) else { throw .usage("--limit takes 1 to 1000") }
    let report: ExplainReport = try await ControlConnection(invocation).get(
        "/v1/explain?name=\(pathSegment(name))&limit=\(number)")
    let lines = Explanation(report).lines
    let isPrinted = try invocation.printJSON(report)
    guard !report.isEmpty else { throw .failed(lines: lines) }
    if !isPrinted { say(lines) }
}
