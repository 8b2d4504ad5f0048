import Reactor
import Storage

/// Copies the write-ahead log into the file on its own thread, so that no commit waits for it.
///
/// Its connection stays open while the daemon runs. Thus SQLite keeps its index of the log when the writer's connection
/// is opened again, and never uses pages of a failed commit.
actor StoreCheckpointer {
    private let loop: EventLoop  // held, since the executor reference below does not keep it alive
    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

    private let path: String
    private var connection: Connection?

    init(loop: EventLoop, path: String) {
        self.loop = loop
        self.path = path
    }

    /// Copies the current contents of the log, then calls `finished` on the actor's thread. Any thread may call this,
    /// but only one call at a time until it is finished.
    nonisolated func start(_ finished: @escaping @Sendable () -> Void) {
        loop.post {
            self.assumeIsolated { $0.copy() }
            finished()
        }
    }

    nonisolated func open() { loop.post { self.assumeIsolated { $0.openConnection() } } }

    /// Opens the database again, because the open log lost its name.
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
        // A read makes SQLite open the log.
        _ = try? connection?.integer("PRAGMA user_version")
    }

    /// A failure is retried with the next pages. A full disk stops the writer, which reports it.
    private func copy() {
        openConnection()
        do {
            try connection?.checkpoint(.passive)
        } catch {
            connection = nil
        }
    }
}
