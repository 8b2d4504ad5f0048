import Control

let messageListCommand = Command(
    name: "message list", summary: "Show the messages that wait for the phones of one user or of all users.",
    arguments: "[\(userArgument)]", options: Command.listOptions,
    examples: ["message list bob"]
) { invocation throws(Command.Failure) in
    let user = invocation.arguments.isEmpty ? "" : "?user=\(pathSegment(try invocation.onlyUser()))"
    let messages = try await ControlConnection(invocation)
        .list("/v1/messages\(user)", \MessagePage.messages, next: \.next)
    if try invocation.printJSON(messages) { return }
    let table = Table(
        ("MESSAGE", 10), ("AOR", 32), ("FROM", 32), ("SINCE", 22), ("UNTIL", 22), ("BYTES", 8), ("DEVICES", 0))
    for message in messages {
        table.row(
            "\(message.id)", message.aor, message.sender, timeText(message.receivedAt), timeText(message.expiresAt),
            "\(message.bytes)", message.devices.joined(separator: ","))
    }
}

let messageRemoveCommand = Command(
    name: "message remove", summary: "Remove a message that waits for a phone. No phone gets the removed message.",
    arguments: "MESSAGE",
    options: [Command.configOption],
    examples: ["message remove 17"]
) { invocation throws(Command.Failure) in
    let id = try invocation.onlyArgument("MESSAGE")
    try await ControlConnection(invocation).delete("/v1/messages/\(pathSegment(id))")
    say("removed")
}
