import Reactor
import Storage

/// Reads for the HTTP services, on a thread of their own: a long one holds up neither calls nor commits.
actor StoreQueries {
    private let loop: EventLoop  // stored: the executor reference below is unowned
    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

    private let path: String
    private var connection: Connection?
    /// What the connection reads, as it was named when it was opened.
    private var files: StoreFiles?
    private let waiting = Locked(0)

    private static let limit = 64

    init(path: String, thread name: String = "queries") throws(SystemError) {
        self.path = path
        loop = try EventLoop()
        try loop.start(name: name)
    }

    /// Runs a query on the thread, after those that wait. From any thread.
    ///
    /// - Parameters:
    ///   - query: gets a connection that only reads; what it does with the rows, it does on that thread.
    ///   - failed: called there when the store could not be read.
    /// - Returns: false when too many wait; then nothing is called.
    nonisolated func run(
        _ query: @escaping @Sendable (Connection) throws(SQLError) -> Void, failed: @escaping @Sendable () -> Void
    ) -> Bool {
        let isTaken = waiting.withLock { waiting in
            guard waiting < Self.limit else { return false }
            waiting += 1
            return true
        }
        guard isTaken else { return false }
        loop.post { self.assumeIsolated { $0.read(query, failed) } }
        return true
    }

    /// Ends the thread after the queries that wait.
    nonisolated func stop() {
        loop.post { self.assumeIsolated { $0.connection = nil } }
        loop.stop()
        loop.join()
    }

    private func read(_ query: (Connection) throws(SQLError) -> Void, _ failed: () -> Void) {
        waiting.withLock { $0 -= 1 }
        do throws(SQLError) {
            try query(try openConnection())
        } catch {
            connection = nil
            failed()
        }
    }

    private func openConnection() throws(SQLError) -> Connection {
        // A log that somebody has removed would be read for ever.
        let found = StoreFiles(path)
        if let connection, found == files { return connection }
        files = found
        var options = ConnectionOptions()
        options.access = .readOnly
        options.cacheSize = 2048
        let opened = try Connection(path: path, options: options)
        connection = opened
        return opened
    }
}
