import Control

let upstreamListCommand = Command(
    name: "upstream list",
    summary: "Show the users whom the daemon keeps registered at a PBX, and the state of each registration.",
    arguments: "[DOMAIN]", options: Command.listOptions, examples: ["upstream list", "upstream list example.net"]
) { invocation throws(Command.Failure) in
    let domain = invocation.arguments.first.map { "?domain=\(pathSegment($0))" } ?? ""
    let users = try await ControlConnection(invocation)
        .list("/v1/upstream\(domain)", \UpstreamUserPage.users, next: \.next)
    if try invocation.printJSON(users) { return }
    let table = Table(("AOR", 40), ("STATE", 12), ("SINCE", 22), ("STATUS", 8), ("REMAINING", 0))
    for user in users { table.row(user) }
}

let upstreamShowCommand = Command(
    name: "upstream show",
    summary:
        "Show whether a user is registered at the PBX. If the user is not registered, the command shows the reason.",
    arguments: "USER@DOMAIN",
    options: Command.listOptions, examples: ["upstream show bob@example.net"]
) { invocation throws(Command.Failure) in
    let name = try invocation.onlyArgument("USER@DOMAIN")
    let user: UpstreamUserReport = try await ControlConnection(invocation).get("/v1/upstream/\(pathSegment(name))")
    if try invocation.printJSON(user) { return }
    let table = Table(("AOR", 40), ("STATE", 12), ("SINCE", 22), ("STATUS", 8), ("REMAINING", 0))
    table.row(user)
    say(user.meaning)
}

let upstreamRetryCommand = Command(
    name: "upstream retry",
    summary:
        "Register a user, or all users of a domain, at the PBX again. This includes users whose password the PBX refused.",
    arguments: "USER@DOMAIN|DOMAIN", options: [Command.configOption],
    examples: ["upstream retry bob@example.net", "upstream retry example.net"]
) { invocation throws(Command.Failure) in
    let name = try invocation.onlyArgument("USER@DOMAIN or DOMAIN")
    try await ControlConnection(invocation).post("/v1/upstream/\(pathSegment(name))/retry")
    say("tried again")
}

extension Table {
    fileprivate func row(_ user: UpstreamUserReport) {
        row(
            user.aor, user.state, timeText(user.since), user.status == 0 ? "-" : "\(user.status)",
            user.remaining == 0 ? "-" : "\(user.remaining) s")
    }
}

extension UpstreamUserReport {
    /// The state of the user at the PBX in words; if there is a problem, with the reason and the advice.
    var meaning: String {
        let time = timeText(since)
        guard let reason else { return "known at the PBX since \(time)" }
        return "not known at the PBX since \(time): \(reason)" + (advice.map { "\n  => \($0)" } ?? "")
    }
}
