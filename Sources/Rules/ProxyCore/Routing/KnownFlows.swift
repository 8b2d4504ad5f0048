import Addressing
import Timekeeping

/// What is known of flows: when they last showed life, and whom their certificates name.
struct KnownFlows {
    /// When flows last showed life; `nil` when the settings do not ask for it.
    var life: FlowLife?
    /// Flows over UDP that must show life.
    var timers = FlowTimers()
    /// A timer of the engine waits for the next flow that may not have.
    var isTimerArmed = false
    /// The names that the peers of open connections have proved, by the connections' numbers.
    var provedNames: [UInt64: [String]] = [:]

    init(_ settings: ProxySettings) { watchLife(settings) }

    mutating func watchLife(_ settings: ProxySettings) {
        let span = settings.call.ringLiveFlowWithin
        life = span > .zero ? FlowLife(span: span) : nil
    }
}
