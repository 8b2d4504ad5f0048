import AccessLimits
import Calling
import PushPlanning
import Registration
import Telemetry
package import Timekeeping

/// Exchanges the counts of limits with the other nodes of the cluster.
extension ProxyEngine {
    /// Takes the counts that the other nodes do not know yet.
    package func takeCounts(now: Moment) -> [SharedCount] {
        let (logins, pushes) = (access.sources.takeCounts(now: now.instant), ledger.takeCounts(now: now.instant))
        let held = calls.takeCounts()
        let dropped = logins.dropped + pushes.dropped + held.dropped
        if dropped > 0, let suppressed = access.countLines.admit(now: now.instant) {
            log.warning(
                "too many sources and devices count for limits at once, so other nodes do not learn all counts",
                [.count: .number(dropped), .suppressed: .number(suppressed)])
        }
        return logins.counts + pushes.counts + held.counts
    }

    /// Adds counts of other nodes to the counts of this node.
    package func countsTold(_ counts: [SharedCount], now: Moment) {
        for told in counts {
            access.sources.logins.add(told, now: now.instant)
            ledger.add(told, now: now.instant)
        }
        calls.add(counts, now: now.instant)
    }
}
