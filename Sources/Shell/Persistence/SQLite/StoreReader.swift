import Reactor
import Storage

/// Reads the store on its own thread, so that a long read delays neither calls nor commits.
actor StoreReader {
    private let loop: EventLoop  // The loop is stored, because the executor reference does not keep it alive
    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

    private let path: String
    private var connection: Connection?
    /// The identities of the store's files when the connection was opened.
    private var files: StoreFiles?
    private let waiting = Locked(0)

    private static let limit = 64

    init(path: String, thread name: String) throws(SystemError) {
        self.path = path
        loop = try EventLoop()
        try loop.start(name: name, givesWay: true)
    }

    /// Queues a read on the reader's thread, where `question` gets a read-only connection.
    nonisolated func read<Answer: Sendable>(
        _ question: @escaping @Sendable (Connection) throws -> Answer
    ) async throws(StoreError) -> Answer {
        let isTaken = waiting.withLock { waiting in
            guard waiting < Self.limit else { return false }
            waiting += 1
            return true
        }
        guard isTaken else { throw StoreError("store \(path): too many questions wait") }
        return try await answer(question)
    }

    /// Writes on the reader's thread; a write is allowed only at the start, while the writer is idle.
    func write<Answer: Sendable>(
        _ change: @Sendable (Connection) throws -> Answer
    ) throws(StoreError) -> Answer {
        do { return try change(try Connection.openStore(path, mayCreate: false)) } catch {
            throw StoreError(path, error)
        }
    }

    /// Ends the reader's thread after the queued reads.
    nonisolated func stop() {
        loop.post { self.assumeIsolated { $0.connection = nil } }
        loop.stop()
        loop.join()
    }

    private func answer<Answer: Sendable>(
        _ question: @Sendable (Connection) throws -> Answer
    ) throws(StoreError) -> Answer {
        waiting.withLock { $0 -= 1 }
        do {
            return try question(try openConnection())
        } catch {
            connection = nil
            throw StoreError(path, error)
        }
    }

    private func openConnection() throws(SQLError) -> Connection {
        // The connection to replaced files is opened again, because a connection to a removed file would read its old
        // contents forever.
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
