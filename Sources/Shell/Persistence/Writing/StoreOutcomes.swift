import Reactor
import Telemetry

/// Receives the writer's results on the loop, and passes them to the engine and the services.
///
/// - The class is `@unchecked Sendable`, because only the loop uses it.
final class StoreOutcomes: @unchecked Sendable {
    var finished: ([CommitResult]) -> Void = { _ in }
    /// The callbacks of services that wait for a commit, by ticket number.
    var waiting: [UInt64: (WriteResult) -> Void] = [:]
    private let log: Log

    init(log: Log) { self.log = log }

    func arrived(_ results: [StoreResult]) {
        var commits: [CommitResult] = []
        for result in results {
            switch result.ticket {
            case .engine(let ticket): commits.append(CommitResult(ticket: ticket, succeeded: result.isStored))
            case .service(let number):
                waiting.removeValue(forKey: number)?(
                    WriteResult(isStored: result.isStored, isFound: result.isFound))
            case nil where !result.isStored:
                log.error(
                    "the store refused changes, so missed calls or records for the command 'sippushd explain' are lost"
                )
            case nil: break
            }
        }
        if !commits.isEmpty { finished(commits) }
    }

    /// Passes the results that somebody awaits, and failures, to the loop. The loop gets no report of a successful
    /// change that no requester waits for.
    func post(_ results: [StoreResult], to loop: EventLoop) {
        let told = results.filter { $0.ticket != nil || !$0.isStored }
        if !told.isEmpty { loop.post { self.arrived(told) } }
    }
}
