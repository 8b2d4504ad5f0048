import Reactor
import Storage

/// Copies the write-ahead log into the file on a thread of its own, so that no commit waits for it.
///
/// Its connection stays open while the daemon runs: SQLite then keeps its index of the log when the writer's connection
/// is opened anew, and pages that a failed commit has left behind it never count.
actor StoreCheckpointer {
    private let loop: EventLoop  // held, since the executor reference below does not keep it alive
    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

    private let path: String
    private var connection: Connection?

    init(loop: EventLoop, path: String) {
        self.loop = loop
        self.path = path
    }

    /// Copies what the log holds now, then calls `finished` on the actor's thread. Any thread may call this, but only
    /// one at a time, until it is finished.
    nonisolated func start(_ finished: @escaping @Sendable () -> Void) {
        loop.post {
            self.assumeIsolated { $0.copy() }
            finished()
        }
    }

    nonisolated func open() { loop.post { self.assumeIsolated { $0.openConnection() } } }

    /// Opens the database anew, because the log that was open has lost its name.
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
        // Reading makes SQLite open the log.
        _ = try? connection?.integer("PRAGMA user_version")
    }

    /// What fails here is tried again with the next pages; a disk that is full stops the writer, which reports it.
    private func copy() {
        openConnection()
        do {
            try connection?.checkpoint(.passive)
        } catch {
            connection = nil
        }
    }
}
