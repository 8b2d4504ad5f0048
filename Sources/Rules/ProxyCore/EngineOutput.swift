import AccessLimits
import Calling
package import PushDelivery
package import PushPlanning
package import Registration
package import ServiceEvents
import Telemetry
import Timekeeping

/// The results of the engine's work: actions for the shell, counters, and timers.
struct EngineOutput {
    var actions: [ProxyAction] = []
    var counters = CounterSet()
    var timers = DeadlineQueue<EngineTimer>()
    /// The expiry time of the timer ``EngineTimer/keysDue``.
    var keysTimer: Instant?
    /// The rate limit of log lines about failed calls.
    var callLines = CallLines()
    /// Whether the engine reports the end of each call; the traces of calls need the reports.
    var reportsEnds = false
    /// The events for the operator's receiver.
    var events = EventReports()
}

extension [ProxyAction]: EventOrders {
    package mutating func tell(_ event: ServiceEvent) { append(.tell(event)) }
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
