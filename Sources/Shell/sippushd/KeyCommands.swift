import Control
import HTTPServices
import ProxyRuntime

// Commands for the keys of the HTTP API.

private let scopeOption = Command.Option(
    name: "--scope", value: "SCOPES",
    help: "The key's permissions, separated by commas: \(APIScope.allCases.map(\.rawValue).joined(separator: ", ")).",
    choices: APIScope.allCases.map(\.rawValue))

private let domainsOption = Command.Option(
    name: "--domains", value: "DOMAINS",
    help:
        "The domains that the key may reach, separated by commas (default: all domains). The key reaches users, devices, API keys and figures of these domains only."
)

let keyAddCommand = Command(
    name: "apikey add", summary: "Create a key for the HTTP API and print the key. The key cannot be shown again.",
    arguments: "NAME", options: [Command.configOption, scopeOption, domainsOption],
    examples: [
        "apikey add shop --scope tokens.report,lifecycle.report",
        "apikey add branch --scope admin --domains branch.example.net",
    ]
) { invocation throws(Command.Failure) in
    let name = try invocation.onlyArgument("NAME")
    guard APIKey.isName(name) else { throw .usage("the name is up to 64 letters, digits, '-', '_' and '.'") }
    guard let text = invocation.value("--scope") else { throw .usage("expected --scope") }
    guard let scopes = APIScope.set(text) else {
        throw .usage("--scope takes \(APIScope.allCases.map(\.rawValue).joined(separator: ", "))")
    }
    let secret = try offline { () throws(StartError) in try APIKeySecret.make() }
    let domains = invocation.value("--domains").map {
        $0.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
    }
    guard domains.map({ DomainScope(domains: $0) != nil }) ?? true else {
        throw .usage("--domains takes names of domains, separated by commas")
    }
    let request = APIKeyRequest(name: name, secret: secret, scopes: scopes, domains: domains)
    try await invocation.askDaemon { control throws(Command.Failure) in
        try await control.put("/v1/apikeys", request)
    } orStore: { store throws(StartError) in
        try store.add(request)
    }
    say(secret.text)
}

let keyListCommand = Command(
    name: "apikey list", summary: "List the keys of the HTTP API, with their scopes and domains.",
    options: Command.listOptions,
    examples: ["apikey list"]
) { invocation throws(Command.Failure) in
    let keys: [APIKeyReport] = try await invocation.askDaemon { control throws(Command.Failure) in
        try await control.get("/v1/apikeys")
    } orStore: { store throws(StartError) in
        try store.keys()
    }
    if try invocation.printJSON(keys) { return }
    let table = Table(("NAME", 24), ("SINCE", 22), ("SCOPES", 32), ("DOMAINS", 0))
    for key in keys {
        table.row(key.name, timeText(key.createdAt), key.scopes, key.domains?.joined(separator: ",") ?? "all")
    }
}

let keyRemoveCommand = Command.removing(
    "apikey remove", "Remove a key of the HTTP API. The daemon immediately refuses requests with the removed key.",
    from: "/v1/apikeys",
    example: "shop"
) { store, name throws(StartError) in
    try store.removeKey(name)
}
