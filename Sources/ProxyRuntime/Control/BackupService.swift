import HTTPServer
import Reactor
import Storage
import Telemetry
import Timekeeping

/// Copies the store for operators, while it is in use: `sippushd backup`.
///
/// On a thread of its own, so that neither calls nor queries wait. Only over the control socket: the file is written where
/// the caller says, with the daemon's rights.
final class BackupService: Sendable {
    private let path: String
    private let loop: EventLoop
    private let thread: StoreQueries
    private let log: Log
    private let isBusy = Locked(false)
    private let isStopping = Locked(false)

    init(store path: String, loop: EventLoop, log: Log) throws(SystemError) {
        self.path = path
        self.loop = loop
        self.log = log
        thread = try StoreQueries(path: path, thread: "backup")
    }

    /// Breaks off what is under way, and leaves nothing of it.
    func stop() {
        isStopping.withLock { $0 = true }
        thread.stop()
    }

    func register(in router: inout ServiceRouter) {
        router.add("POST", "/v1/backup", scope: .admin) { [self] call throws(ServiceProblem) in
            guard let file = call.request.query("file"), file.hasPrefix("/") else {
                throw ServiceProblem(400, "expected file, an absolute path")
            }
            guard begin() else { throw ServiceProblem(409, "a backup is being written already") }
            let start = loop.now
            let isTaken = thread.run(
                { [self] connection throws(SQLError) in
                    defer { isBusy.withLock { $0 = false } }
                    write(connection, to: file, since: start, call)
                },
                failed: { [self] in
                    isBusy.withLock { $0 = false }
                    call.answer(.notRead)
                })
            if !isTaken { throw .notRead }
        }
    }

    private func begin() -> Bool {
        isBusy.withLock { isBusy in
            defer { isBusy = true }
            return !isBusy
        }
    }

    private func write(_ connection: Connection, to file: String, since start: Instant, _ call: ServiceCall) {
        do throws(BackupError) {
            let bytes = try connection.backUp(to: file, database: path) { isStopping.withLock { $0 } }
            log.notice(
                "store backed up",
                [.path: .text(file), .bytes: .number(bytes), .duration: .duration(loop.now - start)])
            call.answer(BackupReport(file: file, bytes: bytes))
        } catch {
            log.warning("store not backed up", [.path: .text(file), .error: .described(error)])
            call.answer(ServiceProblem(409, "the store is not backed up", detail: error.description))
        }
    }
}

/// What was written.
package struct BackupReport: Codable, Sendable {
    package var file: String
    package var bytes: Int
}
