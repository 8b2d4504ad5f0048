import Reactor

/// Reads the store on its own thread, so that a long read delays neither calls nor commits.
actor StoreReader {
    private let loop: EventLoop  // The loop is stored, because the executor reference does not keep it alive
    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

    private let source: any TableSource
    private let waiting = Locked(0)

    private static let limit = 64

    init(_ source: any TableSource, thread name: String) throws(SystemError) {
        self.source = source
        loop = try EventLoop()
        try loop.start(name: name, givesWay: true)
    }

    /// Queues a read on the reader's thread, where `question` gets the store's tables.
    nonisolated func read<Answer: Sendable>(
        _ question: @escaping @Sendable (any StoreTables) throws -> Answer
    ) async throws(StoreError) -> Answer {
        let isTaken = waiting.withLock { waiting in
            guard waiting < Self.limit else { return false }
            waiting += 1
            return true
        }
        guard isTaken else { throw StoreError("store \(source.place): too many questions wait") }
        return try await answer(question)
    }

    /// Writes on the reader's thread; a write is allowed only at the start, while the writer is idle.
    func write<Answer: Sendable>(
        _ change: @Sendable (any StoreTables) throws -> Answer
    ) throws(StoreError) -> Answer {
        do { return try change(try source.writableTables()) } catch {
            throw StoreError(source.place, error)
        }
    }

    /// Ends the reader's thread after the queued reads.
    nonisolated func stop() {
        loop.post { self.assumeIsolated { $0.source.close() } }
        loop.stop()
        loop.join()
    }

    private func answer<Answer: Sendable>(
        _ question: @Sendable (any StoreTables) throws -> Answer
    ) throws(StoreError) -> Answer {
        waiting.withLock { $0 -= 1 }
        do {
            return try question(try source.tables())
        } catch {
            source.close()
            throw StoreError(source.place, error)
        }
    }
}
