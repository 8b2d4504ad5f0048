import Reactor
import Registration
import Telemetry

/// Asks a database for users on its own threads, because the client libraries block until the server answers.
///
/// Each thread opens one connection for its first query. While all threads wait for a hanging server, further queries
/// fail immediately.
final class DatabaseSource: Sendable {
    typealias Open = @Sendable () throws(UserDatabaseError) -> any UserDatabase

    /// A thread with its connection to the database.
    ///
    /// - `@unchecked Sendable` because only the worker's thread uses the connection.
    private final class Worker: @unchecked Sendable {
        let thread: EventLoop
        var database: (any UserDatabase)?
        let isBusy = Locked(false)

        init(name: String) throws(SystemError) {
            thread = try EventLoop()
            try thread.start(name: name, givesWay: true)
        }
    }

    private let open: Open
    private let workers: [Worker]

    /// - Parameters:
    ///   - name: the name of the threads.
    ///   - parallel: the number of threads.
    ///   - open: opens a connection to the database.
    /// - Throws: an error if the system has no more threads.
    init(name: String, parallel: Int, open: @escaping Open) throws(SystemError) {
        self.open = open
        var workers: [Worker] = []
        for _ in 0..<parallel { workers.append(try Worker(name: name)) }
        self.workers = workers
    }

    /// Asks the database about a user, and calls `done` once: on a thread of ``DatabaseSource``, or before `ask`
    /// returns.
    func ask(_ values: [[UInt8]], _ done: @escaping @Sendable (UserAnswer) -> Void) {
        let free = workers.first { worker in
            worker.isBusy.withLock { isBusy in
                defer { isBusy = true }
                return !isBusy
            }
        }
        guard let free else { return done(.away(.silent)) }
        let open = open
        free.thread.post {
            let answer = Self.answer(values, free, open)
            free.isBusy.withLock { $0 = false }
            done(answer)
        }
    }

    /// Stops the threads; a thread that waits for a hanging server stops only when its query has failed.
    func stop() {
        for worker in workers {
            worker.thread.post { worker.database = nil }
            worker.thread.stop()
        }
    }

    /// Sends the query over the thread's connection. If the server has closed the idle connection, the query is sent
    /// once more over a new connection.
    private static func answer(_ values: [[UInt8]], _ worker: Worker, _ open: Open) -> UserAnswer {
        let isNew = worker.database == nil
        do throws(UserDatabaseError) {
            return try ask(values, worker, open)
        } catch {
            guard error.isConnectionLost else { return error.answer }
            worker.database = nil
            guard !isNew, case .away(let fault) = error.answer, fault != .silent else { return error.answer }
        }
        do throws(UserDatabaseError) {
            return try ask(values, worker, open)
        } catch {
            if error.isConnectionLost { worker.database = nil }
            return error.answer
        }
    }

    private static func ask(
        _ values: [[UInt8]], _ worker: Worker, _ open: Open
    ) throws(UserDatabaseError) -> UserAnswer {
        let database: any UserDatabase
        if let known = worker.database { database = known } else { database = try open() }
        worker.database = database
        return try database.rows(for: values).answer
    }
}
