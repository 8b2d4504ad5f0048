import AccessLimits
import Calling
package import PushDelivery
package import PushPlanning
package import Registration
import Telemetry
import Timekeeping

/// The engine's results for the code that runs the engine: actions to perform, counters, and timers.
struct EngineOutput {
    var actions: [ProxyAction] = []
    var counters = CounterSet()
    var timers = DeadlineQueue<EngineTimer>()
    /// The time for which the engine last set the timer ``EngineTimer/keysDue``.
    var keysTimer: Instant?
    /// The limit on the number of log lines about failed calls.
    var callLines = CallLines()
    /// Whether the engine reports the end of each call for users, for traces.
    var reportsEnds = false
}

extension [ProxyAction]: PushOrders {
    package mutating func send(_ push: PushDispatcher.Transmission) { append(.push(push)) }

    package mutating func makeCredential(_ order: PushCredentials.Order) { append(.makeCredential(order)) }

    package mutating func trace(_ changes: [TimelineChange]) { append(.trace(changes)) }

    package mutating func missedCallsChanged(_ changes: [BucketChange], of aor: AddressOfRecord) {
        for change in changes { append(.journal(.missed(StoredBucketChange(aor: aor, change: change)))) }
        append(.record(changes.map { .bucket(StoredBucketChange(aor: aor, change: $0)) }))
    }
}
