import Control

let messageListCommand = Command(
    name: "message list", summary: "Show the messages that wait for phones, of one user or of all.",
    arguments: "[\(userArgument)]", options: Command.listOptions
) { invocation throws(Command.Failure) in
    let user = invocation.arguments.isEmpty ? "" : "&user=\(pathSegment(try invocation.onlyUser()))"
    let control = try ControlConnection(invocation)
    var messages: [MessageReport] = []
    var next: UInt64? = 0
    while let after = next {
        let page: MessagePage = try await control.get("/v1/messages?limit=1000&after=\(after)\(user)")
        messages += page.messages
        next = page.next
    }
    if try invocation.printJSON(messages) { return }
    print(
        "MESSAGE".padded(to: 10) + "AOR".padded(to: 32) + "FROM".padded(to: 32) + "SINCE".padded(to: 22)
            + "UNTIL".padded(to: 22) + "BYTES".padded(to: 8) + "DEVICES")
    for message in messages {
        print(
            "\(message.id)".padded(to: 10) + message.aor.padded(to: 32) + message.sender.padded(to: 32)
                + timeText(message.receivedAt).padded(to: 22) + timeText(message.expiresAt).padded(to: 22)
                + "\(message.bytes)".padded(to: 8) + message.devices.joined(separator: ","))
    }
}

let messageRemoveCommand = Command(
    name: "message remove", summary: "Remove a message that waits; no phone gets it any more.", arguments: "MESSAGE",
    options: [Command.configOption]
) { invocation throws(Command.Failure) in
    let id = try invocation.onlyArgument("MESSAGE")
    try await ControlConnection(invocation).delete("/v1/messages/\(pathSegment(id))")
    print("removed")
}
