import Control
import FoundationEssentials
import ProxyRuntime

let backupCommand = Command(
    name: "backup", summary: "Copy the store into a file, whether or not the daemon is running.",
    arguments: "FILE", options: [Command.configOption],
    examples: ["backup /var/backups/sippushd.db"]
) { invocation throws(Command.Failure) in
    let name = try invocation.onlyArgument("FILE")
    guard !name.isEmpty, !name.hasSuffix("/") else { throw .usage("\(name) is not the name of a file") }
    let folder = FileManager.default.currentDirectoryPath
    let file = name.hasPrefix("/") ? name : "\(folder == "/" ? "" : folder)/\(name)"
    let report: BackupReport = try await invocation.askDaemon { control throws(Command.Failure) in
        try await control.post("/v1/backup?file=\(pathSegment(file))", timeout: .seconds(86_400))
    } orStore: { store throws(StartError) in
        try store.backUp(to: file)
    }
    say("\(report.bytes) bytes in \(report.file)")
}
