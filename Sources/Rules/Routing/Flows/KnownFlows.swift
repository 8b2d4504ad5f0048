package import Addressing
package import ProxyPolicy
package import Registration
package import Timekeeping

/// The state of flows: when each flow last showed life, and which names its certificate proves.
package struct KnownFlows {
    /// When each flow last showed life. `nil` if `call.ring-live-flow-within` is zero.
    private var activity: FlowActivity?
    /// UDP flows that must send a keep-alive at intervals, with their deadlines.
    private var timers = FlowTimers()
    /// Whether the engine has a timer for the next flow that may be overdue.
    private var isTimerArmed = false
    /// Certificate names that the peers of open connections have proved, by connection number.
    private var provedNames: [UInt64: [String]] = [:]

    package init(_ settings: ProxySettings) { watchActivity(settings) }

    package mutating func watchActivity(_ settings: ProxySettings) {
        let span = settings.call.ringLiveFlowWithin
        activity = span > .zero ? FlowActivity(span: span) : nil
    }

    /// Something came on the flow.
    package mutating func showedLife(_ flow: Flow, now: Instant) { activity?.noted(on: flow, now: now) }

    /// Whether signs of life count at all: `call.ring-live-flow-within` is not zero.
    package var watchesActivity: Bool { activity != nil }

    /// Whether the flow has shown life within `call.ring-live-flow-within`.
    package func wasAlive(_ flow: Flow, now: Instant) -> Bool { activity?.wasAlive(flow, now: now) == true }

    /// Whether the device has registered, or shown life on its flow, within `call.ring-live-flow-within`.
    package func isLive(_ target: ForkTarget, now: Moment) -> Bool {
        guard let activity else { return false }
        return now.date - target.registeredAt < activity.span || activity.wasAlive(target.flow, now: now.instant)
    }

    /// The connection has ended.
    package mutating func ended(_ flow: Flow) {
        activity?.forgot(flow)
        provedNames[flow.connection] = nil
    }

    // MARK: Certificates

    /// The peer of the connection has proved these names. The names are in lower case.
    package mutating func proved(_ names: [String], on flow: Flow) {
        provedNames[flow.connection] = names.isEmpty ? nil : names
    }

    /// The names that the connection's peer has proved; `nil` if it proved none.
    package func names(on flow: Flow) -> [String]? {
        provedNames.isEmpty || !flow.isConnection ? nil : provedNames[flow.connection]
    }

    // MARK: Flow-Timers

    /// A phone was told to show life on the flow, with pauses of at most `span`.
    package mutating func toldTimer(_ device: DeviceID, on flow: Flow, span: Duration, now: Instant) {
        timers.registered(device, on: flow, span: span, now: now)
    }

    /// - Returns: the devices that are on a flow that was silent until now.
    package mutating func heard(_ flow: Flow, span: Duration, now: Instant) -> [DeviceID] {
        timers.isEmpty ? [] : timers.heard(flow, span: span, now: now)
    }

    /// - Returns: when ``timerDue()`` must be told; `nil` if nothing is due, or the time was returned before.
    package mutating func armsTimer() -> Instant? {
        guard !isTimerArmed, let next = timers.nextDeadline else { return nil }
        isTimerArmed = true
        return next
    }

    package mutating func timerDue() { isTimerArmed = false }

    /// Phones are not told any more to show life.
    package mutating func timersEnded() { timers = FlowTimers() }

    /// - Returns: the next flow that has been silent too long, with its devices that are still registered on it.
    package mutating func fallenSilent(
        span: Duration, now: Instant, isOn: (DeviceID, Flow) -> Bool
    ) -> (flow: Flow, bindings: [DeviceID])? {
        timers.fallenSilent(span: span, now: now, isTheirs: isOn)
    }
}
