import Control
import Glibc
import ProxyDaemon
import ProxyRuntime

// Commands for users with digest authentication.

private let passwordOption = Command.Option(
    name: "--password-stdin", value: nil, help: "Read the password from standard input instead of asking for it.")

let userAddCommand = Command(
    name: "user add", summary: "Add a user, who can then register and call.", arguments: userArgument,
    options: [Command.configOption, passwordOption],
    examples: ["user add bob@example.net"]
) { invocation throws(Command.Failure) in
    try await setPassword(invocation)
    say("added")
}

let userPasswordCommand = Command(
    name: "user passwd", summary: "Change a user's password.", arguments: userArgument,
    options: [Command.configOption, passwordOption],
    examples: ["user passwd bob"]
) { invocation throws(Command.Failure) in
    let name = try invocation.onlyUser()
    try await invocation.askDaemon { control throws(Command.Failure) in
        let _: UserReport = try await control.get("/v1/users/\(pathSegment(name))")
    } orStore: { store throws(StartError) in
        guard try store.users().contains(where: { $0.name == name }) else {
            throw StartError("no user is called \(name)")
        }
    }
    try await setPassword(invocation)
    say("changed")
}

let userRemoveCommand = Command.removing(
    "user remove", "Remove a user. The user's registered devices stay registered until you remove them.",
    argument: userArgument, from: "/v1/users", isUser: true, example: "bob"
) { store, name throws(StartError) in
    try store.removeUser(name)
}

let userListCommand = Command(
    name: "user list", summary: "List all users.", options: Command.listOptions,
    examples: ["user list --json"]
) { invocation throws(Command.Failure) in
    let users: [UserReport] = try await invocation.askDaemon { control throws(Command.Failure) in
        try await control.list("/v1/users", \UserPage.users, next: \.next)
    } orStore: { store throws(StartError) in
        try store.users()
    }
    let sorted = users.sorted { $0.name < $1.name }
    if try invocation.printJSON(sorted) { return }
    for user in sorted { say(user.name) }
}

private func setPassword(_ invocation: Command.Invocation) async throws(Command.Failure) {
    let name = try invocation.onlyUser()
    let settings = try invocation.settings()
    let password = try readPassword(fromInput: invocation.has("--password-stdin"))
    let credentials: UserCredentials
    do {
        credentials = try UserCredentials(name: name, password: password, realms: settings.userRealms)
    } catch {
        throw .usage(error.description)
    }
    try await invocation.askDaemon { control throws(Command.Failure) in
        try await control.put("/v1/users", credentials)
    } orStore: { store throws(StartError) in
        try store.add(credentials)
    }
}

private func readPassword(fromInput: Bool) throws(Command.Failure) -> String {
    let text: String?
    if fromInput {
        text = readLine(strippingNewline: true)
    } else {
        text = unsafe getpass("Password: ").map { unsafe String(cString: $0) }
    }
    guard let text, !text.isEmpty else { throw .failed("the password is empty") }
    return text
}
