import HTTPServer
import HTTPServices
import Persistence
import Reactor
import Telemetry
import Timekeeping

/// Copies the store for `sippushd backup` while the daemon uses it.
///
/// Only the control socket offers backups, because the daemon writes the backup file to a path that the client chooses.
struct BackupService {
    let store: any ProxyStore
    let loop: EventLoop
    let log: Log

    func register(in router: inout ServiceRouter) {
        router.add("POST", "/v1/backup", scope: .admin, domains: .wholeDaemon) { call throws(ServiceProblem) in
            guard let file = call.request.query("file"), file.hasPrefix("/") else {
                throw ServiceProblem(400, "expected file, an absolute path")
            }
            call.changes(file)
            let (store, log, loop) = (store, log, loop)
            call.askStore {
                let start = loop.now
                do throws(BackupFailure) {
                    let bytes = try await store.backUp(to: file)
                    log.notice(
                        "a backup of the store is complete",
                        [.path: .text(file), .bytes: .number(bytes), .duration: .duration(loop.now - start)])
                    call.answer(BackupReport(file: file, bytes: bytes))
                } catch {
                    switch error {
                    case .busy: call.answer(ServiceProblem(409, "another backup is in progress"))
                    case .unreadable: call.answer(.notRead)
                    case .refused(let reason):
                        log.warning("the store could not be backed up", [.path: .text(file), .error: .text(reason)])
                        call.answer(ServiceProblem(409, "the store is not backed up", detail: reason))
                    }
                }
            }
        }
    }
}

/// The path and the size in bytes of a backup file.
package struct BackupReport: Codable, Sendable {
    package var file: String
    package var bytes: Int

    package init(file: String, bytes: Int) {
        (self.file, self.bytes) = (file, bytes)
    }
}
