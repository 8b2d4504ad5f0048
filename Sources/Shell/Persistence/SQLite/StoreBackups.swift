import Reactor
import Storage

/// Copies the store for operators while the daemon uses it. Backups have their own thread, so that neither calls nor
/// reads wait for a backup.
final class StoreBackups: Sendable {
    private let path: String
    private let reader: StoreReader
    private let isBusy = Locked(false)
    private let isStopping = Locked(false)

    init(path: String) throws(SystemError) {
        self.path = path
        reader = try StoreReader(SQLiteSource(path: path), thread: "backup")
    }

    /// Cancels the backup in progress and removes its file.
    func stop() {
        isStopping.withLock { $0 = true }
        reader.stop()
    }

    /// Copies the store into the file, or throws ``BackupFailure/busy`` while an earlier backup runs.
    ///
    /// - Returns: the size in bytes of the backup's file.
    func write(to file: String) async throws(BackupFailure) -> Int {
        let isFirst = isBusy.withLock { isBusy in
            defer { isBusy = true }
            return !isBusy
        }
        guard isFirst else { throw .busy }
        defer { isBusy.withLock { $0 = false } }
        let outcome: Result<Int, BackupError>
        do {
            outcome = try await reader.read { [path, isStopping] tables in
                guard let connection = tables as? Connection else { preconditionFailure("the source is SQLite's") }
                return Result { () throws(BackupError) in
                    try connection.backUp(to: file, database: path) { isStopping.withLock { $0 } }
                }
            }
        } catch {
            throw .unreadable
        }
        switch outcome {
        case .success(let bytes): return bytes
        case .failure(let error): throw .refused(error.description)
        }
    }
}
