import Addressing
package import PushDelivery
package import Registration
import SIPGrammar
import Telemetry
package import Timekeeping

/// Lists of missed calls, for phones that return.
extension ProxyEngine {
    /// Sends a returning device the list of calls that it missed.
    func reportMissedCalls(to device: DeviceID, of aor: AddressOfRecord, now: Moment) {
        guard ledger.buckets.hasMissedCalls(device, of: aor),
            let target = registrar.bindings.forkTarget(device, now: now.instant), let token = target.pushToken
        else { return }
        guard ledger.dispatcher.directory.carriesLists(token) else {
            let count = ledger.listNotCarried(by: target, token, of: aor, now: now, into: &actions)
            return counters.count(.missedCallNotCarried, by: UInt64(count))
        }
        ledger.reportMissedCalls(
            to: target, token, of: aor, life: settings.missedCallsLife, now: now, into: &actions)
    }

    /// Schedules the lists that were due when the last run ended.
    func restoreMissedCalls(now: Moment) {
        ledger.restored(now: now, into: &actions) { device, date in
            registrar.bindings.forkTarget(device, now: now.instant).map { $0.registeredAt > date } ?? false
        }
    }

    /// An operator deleted missed calls of a user. Calls that are still being offered are never deleted this way. The
    /// rows of the calls must be deleted before this call.
    ///
    /// - Parameters:
    ///   - calls: the entries as they were when their rows were deleted.
    ///   - aor: the user.
    ///   - now: both clocks.
    package func missedCallsForgotten(_ calls: [BucketEntry], of aor: AddressOfRecord, now: Moment) {
        ledger.forget(calls, of: aor, now: now, into: &actions)
    }
}
