package import Addressing
package import ProxyPolicy
package import Registration
package import Timekeeping

/// The engine's knowledge about flows: the time of each flow's last message, the host names in its peer's certificate,
/// and the nodes of the cluster that have flows of phones.
package struct KnownFlows: ~Copyable {
    /// The time of the last message on each flow; `nil` if `call.ring-live-flow-within` is zero.
    private var activity: FlowActivity?
    /// The UDP flows on which phones must send keep-alives, with their deadlines.
    private var timers = FlowTimers()
    /// Whether the engine's timer for missing keep-alives is set.
    private var isTimerArmed = false
    /// The host names in the certificates of the peers of open connections, by connection number.
    private var provedNames: [UInt64: [String]] = [:]
    /// The nodes of the cluster; `nil` if no other daemon uses the store.
    package var nodes: Nodes?
    /// Whether several daemons use the store, so that another node may have changed each user.
    ///
    /// Each request asks this. A look at ``nodes`` would copy the value.
    package let haveNodes: Bool

    package init(_ settings: ProxySettings, nodes: Nodes? = nil) {
        self.nodes = nodes
        haveNodes = nodes != nil
        watchActivity(settings)
    }

    package mutating func watchActivity(_ settings: ProxySettings) {
        let span = settings.call.ringLiveFlowWithin
        activity = span > .zero ? FlowActivity(span: span) : nil
    }

    /// Notes a message or keep-alive on a flow. The phones of the flow must send keep-alives at least once in each
    /// `span`.
    ///
    /// - Returns: the flow's bindings, if the flow was treated as silent before.
    @discardableResult
    package mutating func heard(_ flow: Flow, span: Duration, now: Instant) -> [DeviceID] {
        activity?.noted(on: flow, now: now)
        return timers.isEmpty ? [] : timers.heard(flow, span: span, now: now)
    }

    /// Whether the times of messages are recorded, because `call.ring-live-flow-within` is not zero.
    package var watchesActivity: Bool { activity != nil }

    /// Whether a message came on the flow within `call.ring-live-flow-within`.
    package func wasAlive(_ flow: Flow, now: Instant) -> Bool { activity?.wasAlive(flow, now: now) == true }

    /// Whether the device has registered, or sent something on its flow, within `call.ring-live-flow-within`.
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

    /// Notes the host names, in lower case, that the certificate of the connection's peer proves.
    package mutating func proved(_ names: [String], on flow: Flow) {
        provedNames[flow.connection] = names.isEmpty ? nil : names
    }

    /// The host names that the peer's certificate has proved; `nil` if the peer has proved none.
    package func names(on flow: Flow) -> [String]? {
        provedNames.isEmpty || !flow.isConnection ? nil : provedNames[flow.connection]
    }

    // MARK: Flow-Timers

    /// Expects keep-alives on a UDP flow whose phone must send a keep-alive at least once in each `span`.
    package mutating func toldTimer(_ device: DeviceID, on flow: Flow, span: Duration, now: Instant) {
        timers.registered(device, on: flow, span: span, now: now)
    }

    /// The instant at which a new timer for missing keep-alives must fire; `nil` if no timer is needed or a timer is
    /// already set.
    package mutating func armsTimer() -> Instant? {
        guard !isTimerArmed, let next = timers.nextDeadline else { return nil }
        isTimerArmed = true
        return next
    }

    package mutating func timerDue() { isTimerArmed = false }

    /// Expects no keep-alives any more, because phones get no Flow-Timer.
    package mutating func timersEnded() { timers = FlowTimers() }

    /// Returns the next flow that was silent for too long, and the bindings on the flow; `nil` if no flow was silent
    /// for so long.
    package mutating func fallenSilent(
        span: Duration, now: Instant, isOn: (DeviceID, Flow) -> Bool
    ) -> (flow: Flow, bindings: [DeviceID])? {
        timers.fallenSilent(span: span, now: now, isTheirs: isOn)
    }
}
