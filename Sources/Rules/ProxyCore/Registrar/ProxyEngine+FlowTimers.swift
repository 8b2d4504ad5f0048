import Addressing
import Registration
import Telemetry
import Timekeeping

/// Watches flows whose phones were told by Flow-Timer how often to show life (RFC 5626 section 4.4).
extension ProxyEngine {
    /// A phone was told a Flow-Timer. The runtime closes a connection on which nothing comes. UDP has no connection,
    /// so UDP flows are watched here.
    func toldFlowTimer(_ bindings: some Sequence<DeviceID>, on flow: Flow, now: Moment) {
        let pause = settings.registrar.flowTimer
        guard pause > .zero else { return }
        if flow.isConnection { return act(.expectLife(flow, every: pause)) }
        guard !flow.transport.isReliable else { return }
        for binding in bindings {
            flows.timers.registered(binding, on: flow, span: pause + Self.flowGrace, now: now.instant)
        }
        armFlowTimers()
    }

    /// A keep-alive, a request or a response came on the flow. This check costs nothing while no phone was told a
    /// Flow-Timer.
    func showedLife(on flow: Flow, now: Moment) {
        guard !flows.timers.isEmpty else { return }
        let span = settings.registrar.flowTimer + Self.flowGrace
        for binding in flows.timers.heard(flow, span: span, now: now.instant) {
            registrar.bindings.flowRevived(binding)
            armFlowTimers()
        }
    }

    /// How much longer than its Flow-Timer a phone may be silent. A keep-alive may be lost, and is then sent again.
    private static let flowGrace: Duration = .seconds(10)

    private func armFlowTimers() {
        guard !flows.isTimerArmed, let next = flows.timers.nextDeadline else { return }
        flows.isTimerArmed = true
        _ = timers.schedule(.flowTimersDue, at: next)
    }

    /// A silent flow is tried last, after the other flows of its phone, or the phone is woken by a push.
    func flowTimersDue(now: Moment) {
        flows.isTimerArmed = false
        let pause = settings.registrar.flowTimer
        // The setting was switched off, so phones are no longer asked to show life.
        guard pause > .zero else { return flows.timers = FlowTimers() }
        for _ in 0..<Self.flowBatch {
            let silent = flows.timers.fallenSilent(span: pause + Self.flowGrace, now: now.instant) { binding, flow in
                registrar.bindings.binding(binding)?.flow == flow
            }
            guard let (flow, bindings) = silent else { break }
            for binding in bindings { registrar.bindings.flowFailed(binding) }
            log.info("flow is silent", [.source: .described(flow.remote), .device: .described(bindings[0])])
        }
        armFlowTimers()
    }

    /// How many silent flows are handled at a time, so that many silent flows do not hold up calls.
    private static let flowBatch = 500
}
