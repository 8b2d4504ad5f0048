import Reactor
import Storage

/// Copies the write-ahead log into the database on its own thread, so that no commit waits for the copy.
///
/// The checkpointer's connection stays open while the daemon runs. The open connection makes SQLite keep its index of
/// the log while the writer's connection is opened again after a failure. SQLite then never uses pages of a failed
/// commit.
actor StoreCheckpointer {
    private let loop: EventLoop  // stored, because the executor reference below does not keep it alive
    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

    private let path: String
    private var connection: Connection?

    init(loop: EventLoop, path: String) {
        self.loop = loop
        self.path = path
    }

    /// Copies the current contents of the log, then calls `finished` on the actor's thread. Any thread may call this
    /// function. Do not start the next copy before `finished` was called.
    nonisolated func start(_ finished: @escaping @Sendable () -> Void) {
        loop.post {
            self.assumeIsolated { $0.copy() }
            finished()
        }
    }

    nonisolated func open() { loop.post { self.assumeIsolated { $0.openConnection() } } }

    /// Opens the database again after somebody removed the log that is open.
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
        // SQLite opens the log at the first read.
        _ = try? connection?.integer("PRAGMA user_version")
    }

    /// Copies the log. If copying fails, the next checkpoint tries again. A full disk is not reported here, because the
    /// writer reports it.
    private func copy() {
        openConnection()
        do {
            try connection?.checkpoint(.passive)
        } catch {
            connection = nil
        }
    }
}
