import Addressing
import Timekeeping

/// The state of flows: when each flow last showed life, and which names its certificate proves.
struct KnownFlows {
    /// When each flow last showed life. `nil` if `call.ring-live-flow-within` is zero.
    var activity: FlowActivity?
    /// UDP flows that must send a keep-alive at intervals, with their deadlines.
    var timers = FlowTimers()
    /// Whether an engine timer is set for the next flow that may be overdue.
    var isTimerArmed = false
    /// Certificate names that the peers of open connections have proved, by connection number.
    var provedNames: [UInt64: [String]] = [:]

    init(_ settings: ProxySettings) { watchActivity(settings) }

    mutating func watchActivity(_ settings: ProxySettings) {
        let span = settings.call.ringLiveFlowWithin
        activity = span > .zero ? FlowActivity(span: span) : nil
    }
}
