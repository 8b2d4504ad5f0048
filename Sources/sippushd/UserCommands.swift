import Foundation
import ProxyRuntime

/// Users for digest authentication. A running daemon is told over its control socket; without one the store is changed.

private let passwordOption = Command.Option(
    name: "--password-stdin", value: nil, help: "Read the password from standard input instead of asking for it.")

let userAddCommand = Command(
    name: "user add", summary: "Add a user who may register and call.", arguments: "USER@DOMAIN",
    options: [Command.configOption, passwordOption]
) { invocation throws(Command.Failure) in
    try await setPassword(invocation)
    print("added")
}

let userPasswordCommand = Command(
    name: "user passwd", summary: "Change a user's password.", arguments: "USER@DOMAIN",
    options: [Command.configOption, passwordOption]
) { invocation throws(Command.Failure) in
    let name = try invocation.onlyArgument("USER@DOMAIN")
    let control = ControlConnection(path: try invocation.settings().control)
    if try control.isAlive {
        let _: UserReport = try await control.get("/v1/users/\(pathSegment(name))")
    } else {
        let known = try await userList(invocation)
        guard known.contains(where: { $0.name == name }) else { throw .failed("no user is called \(name)") }
    }
    try await setPassword(invocation)
    print("changed")
}

let userRemoveCommand = Command(
    name: "user remove", summary: "Remove a user; contacts that are registered stay until they are removed.",
    arguments: "USER@DOMAIN", options: [Command.configOption]
) { invocation throws(Command.Failure) in
    let name = try invocation.onlyArgument("USER@DOMAIN")
    let settings = try invocation.settings()
    let control = ControlConnection(path: settings.control)
    if try control.isAlive {
        try await control.delete("/v1/users/\(pathSegment(name))")
    } else {
        try offline { () throws(StartError) in try OfflineStore(settings).removeUser(name) }
    }
    print("removed")
}

let userListCommand = Command(
    name: "user list", summary: "List all users.", arguments: "", options: [Command.configOption]
) { invocation throws(Command.Failure) in
    try invocation.expect(arguments: 0)
    for user in try await userList(invocation).map(\.name).sorted() { print(user) }
}

private func userList(_ invocation: Command.Invocation) async throws(Command.Failure) -> [UserReport] {
    let settings = try invocation.settings()
    let control = ControlConnection(path: settings.control)
    if try control.isAlive {
        var users: [UserReport] = []
        var after = ""
        while true {
            let page: UserPage = try await control.get("/v1/users?limit=1000" + after)
            users += page.users
            guard let next = page.next else { return users }
            after = "&after=" + pathSegment(next)
        }
    }
    return try offline { () throws(StartError) in try OfflineStore(settings).users() }
}

private func setPassword(_ invocation: Command.Invocation) async throws(Command.Failure) {
    let name = try invocation.onlyArgument("USER@DOMAIN")
    let settings = try invocation.settings()
    let password = try readPassword(fromInput: invocation.has("--password-stdin"))
    let credentials: UserCredentials
    do {
        credentials = try UserCredentials(name: name, password: password, settings: settings)
    } catch {
        throw .usage(error.description)
    }
    let control = ControlConnection(path: settings.control)
    if try control.isAlive {
        try await control.put("/v1/users", credentials)
    } else {
        try offline { () throws(StartError) in try OfflineStore(settings).add(credentials) }
    }
}

func offline<Value>(_ body: () throws(StartError) -> Value) throws(Command.Failure) -> Value {
    do throws(StartError) { return try body() } catch { throw .failed(error.description) }
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
