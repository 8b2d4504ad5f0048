import Reactor
import Registration
import Telemetry

/// Asks a database on threads of its own, because the libraries of databases wait for their servers. Each thread has one
/// connection, which it opens for its first question.
///
/// The engine asks a limited number of questions at a time. If a server hangs, its threads hang with it, and further
/// questions fail at once.
final class DatabaseSource: Sendable {
    typealias Open = @Sendable () throws(UserDatabaseError) -> any UserDatabase

    /// A thread with its connection.
    ///
    /// - `@unchecked Sendable` because the connection is used on the thread alone.
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
    ///   - open: opens a connection.
    /// - Throws: if the system has no more threads.
    init(name: String, parallel: Int, open: @escaping Open) throws(SystemError) {
        self.open = open
        var workers: [Worker] = []
        for _ in 0..<parallel { workers.append(try Worker(name: name)) }
        self.workers = workers
    }

    /// Asks for a user. The answer comes once, on a thread of this source or before this returns.
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

    /// Ends the threads. A thread whose server hangs ends when its question does.
    func stop() {
        for worker in workers {
            worker.thread.post { worker.database = nil }
            worker.thread.stop()
        }
    }

    /// Asks on the connection of this thread. A server may have closed a connection that was idle, so the question is
    /// asked again on a new one.
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
