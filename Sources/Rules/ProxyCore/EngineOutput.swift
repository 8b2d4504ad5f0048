import Telemetry
import Timekeeping

/// The engine's results for its shell: the actions, the counters, and the time of the next event.
struct EngineOutput {
    var actions: [ProxyAction] = []
    var counters = CounterSet()
    var timers = DeadlineQueue<EngineTimer>()
    /// The limit of log lines about failed calls.
    var callLines = CallLines()
}
