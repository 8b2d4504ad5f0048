package import Addressing
package import ProxyPolicy
package import Registration
package import Timekeeping

/// The engine's knowledge about flows: when each flow last showed life, and which host names its peer's certificate
/// proves.
package struct KnownFlows: ~Copyable {
    /// The time at which each flow last showed life; `nil` if `call.ring-live-flow-within` is zero.
    private var activity: FlowActivity?
    /// The UDP flows on which phones must send keep-alives, with their deadlines.
    private var timers = FlowTimers()
    /// Whether the engine has set a timer for the next flow whose keep-alive may be late.
    private var isTimerArmed = false
    /// The host names that the peers of open connections have proved by certificate, by connection number.
    private var provedNames: [UInt64: [String]] = [:]

    package init(_ settings: ProxySettings) { watchActivity(settings) }

    package mutating func watchActivity(_ settings: ProxySettings) {
        let span = settings.call.ringLiveFlowWithin
        activity = span > .zero ? FlowActivity(span: span) : nil
    }

    /// Notes a sign of life on the flow: any message or keep-alive.
    package mutating func showedLife(_ flow: Flow, now: Instant) { activity?.noted(on: flow, now: now) }

    /// Whether signs of life are recorded, because `call.ring-live-flow-within` is not zero.
    package var watchesActivity: Bool { activity != nil }

    /// Whether a message came on the flow within `call.ring-live-flow-within`.
    package func wasAlive(_ flow: Flow, now: Instant) -> Bool { activity?.wasAlive(flow, now: now) == true }

    /// Whether the device has registered, or shown life on its flow, within `call.ring-live-flow-within`.
    package func isLive(_ target: ForkTarget, now: Moment) -> Bool {
        guard let activity else { return false }
        return now.date - target.registeredAt < activity.span || activity.wasAlive(target.flow, now: now.instant)
    }

    /// Forgets a flow whose connection has ended.
    package mutating func ended(_ flow: Flow) {
        activity?.forgot(flow)
        provedNames[flow.connection] = nil
    }

    // MARK: Certificates

    /// Notes the host names, in lower case, that the connection's peer has proved by its certificate.
    package mutating func proved(_ names: [String], on flow: Flow) {
        provedNames[flow.connection] = names.isEmpty ? nil : names
    }

    /// The host names that the connection's peer has proved by its certificate; `nil` if the peer has proved none.
    package func names(on flow: Flow) -> [String]? {
        provedNames.isEmpty || !flow.isConnection ? nil : provedNames[flow.connection]
    }

    // MARK: Flow-Timers

    /// Begins to wait for keep-alives on a UDP flow, because the flow's phone was told to send a keep-alive at least
    /// once in each `span`.
    package mutating func toldTimer(_ device: DeviceID, on flow: Flow, span: Duration, now: Instant) {
        timers.registered(device, on: flow, span: span, now: now)
    }

    /// Notes a sign of life on a flow whose keep-alives the daemon expects, and returns the flow's bindings if the flow
    /// counted as silent until now.
    package mutating func heard(_ flow: Flow, span: Duration, now: Instant) -> [DeviceID] {
        timers.isEmpty ? [] : timers.heard(flow, span: span, now: now)
    }

    /// The time for which the engine must set a timer for missing keep-alives; `nil` if no flow must send keep-alives,
    /// or if the engine has already set a timer.
    package mutating func armsTimer() -> Instant? {
        guard !isTimerArmed, let next = timers.nextDeadline else { return nil }
        isTimerArmed = true
        return next
    }

    package mutating func timerDue() { isTimerArmed = false }

    /// Stops watching all flows, because phones are no longer told to send keep-alives.
    package mutating func timersEnded() { timers = FlowTimers() }

    /// Returns the next flow on which keep-alives have been missing for too long, with the bindings that are still
    /// registered on the flow; `nil` if no flow was silent for so long.
    package mutating func fallenSilent(
        span: Duration, now: Instant, isOn: (DeviceID, Flow) -> Bool
    ) -> (flow: Flow, bindings: [DeviceID])? {
        timers.fallenSilent(span: span, now: now, isTheirs: isOn)
    }
}
