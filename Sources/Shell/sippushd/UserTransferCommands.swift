import Bytes
import Control
import Glibc
import ProxyDaemon
import ProxyRuntime
import Registration

// Commands that import and export many users, from and to CSV files.

let userImportCommand = Command(
    name: "user import",
    summary:
        "Add users from a CSV file, or change their passwords. The first line names the columns: 'user', 'domain', 'realm', 'password', 'ha1'.",
    arguments: "FILE",
    options: [
        Command.configOption,
        Command.Option(
            name: "--dry-run", value: nil, help: "Print the rows that the daemon would refuse, but store no users."),
    ],
    examples: ["user import users.csv --dry-run", "user import users.csv", "user import -"]
) { invocation throws(Command.Failure) in
    let path = try invocation.onlyArgument("FILE")
    try await UserImport(invocation, from: path).run()
}

/// One run of `user import`, which reads rows and stores the users in batches, one transaction for each batch.
private final class UserImport {
    private let invocation: Command.Invocation
    private let isDryRun: Bool
    private var file: LineFile
    private var table: UserTable
    /// The number of the last line that was read from the user file.
    private var line = 1
    private var batch: [UserCredentials] = []
    private var stored = 0
    private var refused = 0
    /// The number of the last line whose user is stored.
    private var storedLine = 1

    init(_ invocation: Command.Invocation, from path: String) throws(Command.Failure) {
        let settings = try invocation.settings()
        self.invocation = invocation
        isDryRun = invocation.has("--dry-run")
        var opened = try LineFile(path: path)
        guard case .bytes(let head)? = try opened.next() else {
            throw .failed("\(path): the first line must name the columns, such as user,domain,password")
        }
        file = opened
        do throws(UserTable.Refusal) {
            table = try UserTable(
                head: head, realms: settings.userRealms, takesMD5: settings.digest.algorithms.contains(.md5))
        } catch {
            throw .failed("line 1: \(error.reason)")
        }
    }

    func run() async throws(Command.Failure) {
        do throws(Command.Failure) {
            while let next = try file.next() {
                line += 1
                take(next)
                if batch.count == UserBatch.limit { try await store() }
            }
            try await store()
        } catch {
            guard case .failed(let lines) = error else { throw error }
            throw .failed(lines: lines + [progress])
        }
        say("\(stored) \(isDryRun ? "users would be stored" : "users are stored"), \(refused) rows are refused")
        if table.usersOfMD5 > 0 {
            complain([
                "note: \(table.usersOfMD5) users have only a hash for MD5; until every user has a hash for SHA-256, the daemon asks all phones for MD5"
            ])
        }
        guard refused == 0 else { throw .failed("\(refused) rows are refused; correct them and import the file again") }
    }

    private func take(_ next: LineFile.Line) {
        do throws(UserTable.Refusal) {
            guard case .bytes(let row) = next else {
                throw UserTable.Refusal("the line has more than \(LineFile.limit) bytes")
            }
            // Many files end with an empty line.
            guard !row.isEmpty else { return }
            batch.append(try table.user(row, line: line))
        } catch {
            refused += 1
            complain(["line \(line): \(error.reason)"])
        }
    }

    /// Stores the batch of users. Each batch first looks for the daemon again, because a daemon may start or stop
    /// during the import.
    private func store() async throws(Command.Failure) {
        let full = UserBatch(users: batch)
        guard !full.users.isEmpty else { return }
        if !isDryRun {
            try await invocation.askDaemon { control throws(Command.Failure) in
                try await control.send("POST", "/v1/users", full)
            } orStore: { store throws(StartError) in
                try store.add(full)
            }
        }
        stored += full.users.count
        storedLine = line
        batch = []
    }

    private var progress: String {
        "\(stored) users are stored, up to line \(storedLine). Remove the cause and import the file again: users that are already stored stay unchanged"
    }
}

let userExportCommand = Command(
    name: "user export",
    summary: "Write all users into a new CSV file that only its owner may read.",
    arguments: "FILE",
    options: [
        Command.configOption,
        Command.Option(
            name: "--with-hashes", value: nil,
            help: "Also write the HA1 hashes of the users. An HA1 hash is as secret as a password."),
    ],
    examples: ["user export users.csv", "user export users.csv --with-hashes"]
) { invocation throws(Command.Failure) in
    let path = try invocation.onlyArgument("FILE")
    let withHashes = invocation.has("--with-hashes")
    let file = try NewFile(path: path)
    // A tenant's account has the domain as name, but its hashes have the realm.
    let settings = try invocation.settings()
    let tenants = Set(settings.tenants.keys.map { $0.lowercased() })
    var head = tenants.isEmpty ? ["user", "realm"] : ["user", "domain", "realm"]
    if withHashes { head += ["ha1", "ha1_sha256", "ha1_sha512_256"] }
    try file.write(CSV.line(of: head))
    var count = 0
    var last = ""
    while true {
        let limit = 1000
        let after = last
        let page: [UserCredentials] = try await invocation.askDaemon { control throws(Command.Failure) in
            let batch: UserBatch = try await control.get(
                "/v1/user-credentials?limit=\(limit)&after=\(pathSegment(after))")
            return batch.users
        } orStore: { store throws(StartError) in
            try store.credentials(after: after, limit: limit)
        }
        for user in page { try file.write(exportLine(user, withHashes, tenants, settings.userRealms)) }
        count += page.count
        guard page.count == limit, let name = page.last?.name else { break }
        last = name
    }
    try file.finish()
    say("\(count) users in \(path)")
}

private func exportLine(
    _ user: UserCredentials, _ withHashes: Bool, _ tenants: Set<String>, _ realms: UserRealms
) -> String {
    let at = user.name.lastIndex(of: "@") ?? user.name.endIndex
    let (name, account) = (String(user.name[..<at]), String(user.name[at...].dropFirst()))
    var fields = [name, account]
    if tenants.contains(account) {
        fields = [name, account, realms.realm(of: account).text.string]
    } else if !tenants.isEmpty {
        fields = [name, "", account]
    }
    fields = fields.map(SpreadsheetFormula.neutralised)
    if withHashes { fields += [user.ha1MD5, user.ha1SHA256 ?? "", user.ha1SHA512_256 ?? ""] }
    return CSV.line(of: fields)
}
