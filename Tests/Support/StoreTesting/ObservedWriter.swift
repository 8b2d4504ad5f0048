package import Persistence
import Telemetry
package import TestSupport
import Timekeeping

/// A writer of the store whose results a test can await, one for each write.
package final class ObservedWriter: Sendable {
    package let writer: StoreWriter
    package let logSink = MemoryLogSink()
    private let results: AsyncStream<StoreResult>

    /// Opens a SQLite file.
    package convenience init(_ path: String, _ settings: StoreWriterSettings = StoreWriterSettings()) throws {
        try self.init { log, onResults in
            try StoreWriter(path: path, settings: settings, log: log, onResults: onResults)
        }
    }

    /// Opens the store of a test.
    package convenience init(_ folder: StoreFolder, _ settings: StoreWriterSettings = StoreWriterSettings()) throws {
        try self.init { log, onResults in
            guard let database = folder.database else {
                return try StoreWriter(path: folder.path, settings: settings, log: log, onResults: onResults)
            }
            return try StoreWriter(postgreSQL: database, settings: settings, log: log, onResults: onResults)
        }
    }

    /// Opens a store in PostgreSQL.
    package convenience init(on database: PostgreSQLPlace) throws {
        try self.init { log, onResults in try StoreWriter(postgreSQL: database, log: log, onResults: onResults) }
    }

    private init(_ open: (Log, @escaping @Sendable ([StoreResult]) -> Void) throws -> StoreWriter) throws {
        let (stream, continuation) = AsyncStream.makeStream(of: StoreResult.self)
        results = stream
        let log = Log(level: .debug, sink: logSink) { UnixTime(milliseconds: 0) }
        writer = try open(log) { results in
            for result in results { continuation.yield(result) }
        }
    }

    /// Submits changes and waits for their result; `nil` if the writer refuses them.
    package func write(_ changes: [RowChange]) async -> Bool? { await submit(changes)?.isStored }

    /// Submits changes and waits for their complete result; `nil` if the writer refuses them.
    package func submit(_ changes: [RowChange]) async -> StoreResult? {
        let ticket = StoreTicket.service(.random(in: .min ... .max))
        guard writer.commit(changes, for: ticket) else { return nil }
        for await result in results where result.ticket == ticket { return result }
        return nil
    }

    package func results(_ count: Int) async -> [StoreResult] {
        var received: [StoreResult] = []
        for await result in results {
            received.append(result)
            if received.count == count { break }
        }
        return received
    }
}
