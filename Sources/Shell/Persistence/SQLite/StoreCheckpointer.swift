import Reactor
import Storage

/// Copies the write-ahead log into the database on its own thread, so that no commit waits for the copy.
///
/// The checkpointer's connection stays open while the daemon runs, even if the writer must reopen its own connection.
/// The open connection makes SQLite keep its index of the log, so that pages of a failed commit are never used.
actor StoreCheckpointer {
    private let loop: EventLoop  // The loop is stored, because the executor reference does not keep it alive
    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

    private let path: String
    private var connection: Connection?

    init(loop: EventLoop, path: String) {
        self.loop = loop
        self.path = path
    }

    /// Copies the present contents of the log, and calls `finished` on the actor's thread. Any thread can start a copy,
    /// but only after the previous copy has called `finished`.
    nonisolated func start(_ finished: @escaping @Sendable () -> Void) {
        loop.post {
            self.assumeIsolated { $0.copy() }
            finished()
        }
    }

    nonisolated func open() { loop.post { self.assumeIsolated { $0.openConnection() } } }

    /// Opens the database again after the write-ahead log was removed.
    nonisolated func reopen() {
        loop.post {
            self.assumeIsolated {
                $0.connection = nil
                $0.openConnection()
            }
        }
    }

    nonisolated func close() { loop.post { self.assumeIsolated { $0.connection = nil } } }

    private func openConnection() {
        guard connection == nil else { return }
        var options = ConnectionOptions()
        options.access = .readWrite
        options.autoCheckpoint = 0
        connection = try? Connection(path: path, options: options)
        // SQLite opens the write-ahead log only when the connection reads for the first time.
        _ = try? connection?.integer("PRAGMA user_version")
    }

    /// Copies the write-ahead log into the database. A failed copy of the write-ahead log is retried at the next
    /// checkpoint; the writer reports a full disk.
    private func copy() {
        openConnection()
        do {
            try connection?.checkpoint(.passive)
        } catch {
            connection = nil
        }
    }
}
