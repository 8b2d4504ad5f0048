import Control
import FoundationEssentials
import Glibc
import ProxyDaemon
import ProxyRuntime

let backupCommand = Command(
    name: "backup", summary: "Copy the store into a file, whether or not the daemon runs.",
    arguments: "FILE", options: [Command.configOption],
    examples: ["backup /var/backups/sippushd.db"]
) { invocation throws(Command.Failure) in
    let name = try invocation.onlyArgument("FILE")
    guard !name.isEmpty, !name.hasSuffix("/") else { throw .usage("\(name) is not the name of a file") }
    let folder = FileManager.default.currentDirectoryPath
    let file = name.hasPrefix("/") ? name : "\(folder == "/" ? "" : folder)/\(name)"
    let place = try BackupDetour(store: try invocation.settings().store, file: file)
    let report: BackupReport = try await invocation.askDaemon { control throws(Command.Failure) in
        func order(_ file: String) async throws(Command.Failure) -> BackupReport {
            try await control.post("/v1/backup?file=\(pathSegment(file))", timeout: .seconds(86_400))
        }
        guard let place else { return try await order(file) }
        defer { place.clear() }
        let report = try await order(place.temporary)
        try place.publish()
        return BackupReport(file: file, bytes: report.bytes)
    } orStore: { store throws(StartError) in
        try store.backUp(to: file)
    }
    say("wrote \(report.bytes) bytes to \(report.file)")
}

/// Writes a backup of the store that root has ordered. `sippushd backup` moves the copy from the store's folder to
/// root's path, because the daemon may write only to the store's folder.
private struct BackupDetour {
    let temporary: String
    private let target: String

    /// Prepares a backup that the daemon first writes into the store's folder. The result is `nil` if the daemon can
    /// write the file at its final path.
    init?(store: String, file: String) throws(Command.Failure) {
        var owner = stat()
        guard geteuid() == 0, unsafe lstat(store, &owner) == 0, owner.st_uid != 0 else { return nil }
        let (folder, name) = Self.parts(of: file)
        guard let place = Self.resolved(folder), let home = Self.resolved(Self.parts(of: store).folder) else {
            throw .failed("the folder of \(file) does not exist")
        }
        // The daemon itself checks that the backup does not overwrite the store's own files.
        guard place != home else { return nil }
        target = "\(place == "/" ? "" : place)/\(name)"
        var status = stat()
        if unsafe lstat(target, &status) == 0, status.st_mode & S_IFMT != S_IFREG {
            throw .failed("\(file) exists and is not a plain file")
        }
        temporary = "\(home)/.backup.\(getpid()).partial"
    }

    /// Moves the copy of the store to the path that root named. ``publish()`` follows no link, because the daemon owns
    /// the folder and could have placed a link.
    func publish() throws(Command.Failure) {
        let source = unsafe open(temporary, O_RDONLY | O_NOFOLLOW | O_CLOEXEC)
        guard source >= 0 else { throw .failed("the copy of the store cannot be read: \(systemReason())") }
        defer { close(source) }
        var status = stat()
        guard unsafe fstat(source, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            throw .failed("the copy of the store cannot be read: it is not a plain file")
        }
        let file = try NewFile(path: target, replaces: true)
        var bytes = [UInt8](repeating: 0, count: 1 << 20)
        while true {
            let count = unsafe bytes.withUnsafeMutableBytes { unsafe read(source, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw .failed("the copy of the store cannot be read: \(systemReason())") }
            guard count > 0 else { break }
            try file.write(Array(bytes.prefix(count)))
        }
        try file.finish()
    }

    func clear() { _ = unsafe unlink(temporary) }

    private static func parts(of path: String) -> (folder: String, name: String) {
        guard let slash = path.lastIndex(of: "/") else { return (".", path) }
        return (slash == path.startIndex ? "/" : String(path[..<slash]), String(path[path.index(after: slash)...]))
    }

    private static func resolved(_ folder: String) -> String? {
        guard let path = unsafe realpath(folder, nil) else { return nil }
        defer { unsafe free(path) }
        return unsafe String(cString: path)
    }
}
