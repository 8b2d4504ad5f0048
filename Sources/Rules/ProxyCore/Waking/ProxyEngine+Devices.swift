import Addressing
import Bytes
import PushDelivery
import Registration
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping

/// Devices that return, show life, or are removed. Each release of ``WakeDesk`` is carried out here.
extension ProxyEngine {
    /// A device has registered, and `binding` is its new or refreshed binding. `isPush` says whether that is a push
    /// contact; `nil` lets the method look it up.
    func bindingReturned(_ binding: DeviceID, of aor: AddressOfRecord, isPush: Bool?, now: Moment) {
        let device = registrar.bindings.device(of: binding)
        noteReturned(device, now: now)
        for release in wakes.returned(device) { carryOut(release, for: device, of: aor, through: binding, now: now) }
        // This contact may belong to a device that was reported over HTTP with its token. No data links the two, so the
        // user's reported devices are released through this contact.
        if !(isPush ?? registrar.bindings.isPush(device)) { contactReturned(device, of: aor, now: now) }
    }

    /// A sign of life on a device's flow releases the calls that wait for the device. An awake phone that gets a push
    /// may have no reason to register again.
    ///
    /// A REGISTER is no sign of life; only its acceptance releases calls. A program that was just started at the same
    /// address is not proved to be the phone until it has registered.
    ///
    /// Anybody can send a datagram with the phone's address. So only a sign on a connection, or a response in a transaction
    /// of ours (`isProved`), counts as a wake in the phone's record.
    func noteLife(on flow: Flow, by sign: TimelineRecord.SignOfLife, isProved: Bool = false, now: Moment) {
        network.flows.activity?.noted(on: flow, now: now.instant)
        showedLife(on: flow, now: now)
        guard !wakes.watchesNothing else { return }
        for device in wakes.watched(on: flow) {
            for call in wakes.calls(of: device) {
                guard let branch = call.fork.waitingBranch(of: device) else { continue }
                ledger.showedLife(call.fork.branches[branch], by: sign)
            }
            if isProved || flow.isConnection { noteReturned(device, now: now) }
            for release in wakes.showedLife(device) {
                carryOut(release, for: device, of: nil, through: nil, now: now)
            }
        }
    }

    /// - Parameters:
    ///   - release: the thing that may go on.
    ///   - device: the device that is there.
    ///   - aor: the device's user; `nil` to look it up.
    ///   - binding: the flow by which the device has registered; `nil` for a sign of life.
    ///   - now: both clocks.
    private func carryOut(
        _ release: WakeDesk.Release, for device: DeviceID, of aor: AddressOfRecord?, through binding: DeviceID?,
        now: Moment
    ) {
        switch release {
        case .caller(let call): callerReturned(call, as: device, now: now)
        case .endedCalls(let ended): sayFarewells(of: ended, to: device, now: now)
        case .call(let call): deviceReturned(device, for: call, through: binding, now: now)
        case .messages:
            guard !messages.isEmpty, let aor = aor ?? registrar.bindings.binding(device)?.aor else { return }
            messagesReturn(to: device, of: aor, now: now)
        case .missedCalls:
            guard !wakes.listWaits(for: device), let aor else { return }
            reportMissedCalls(to: device, of: aor, now: now)
        }
    }

    /// A device was removed from its AOR, for example because it unregistered or its token is dead.
    func deviceRemoved(
        _ device: DeviceID, of aor: AddressOfRecord, because cause: TimelineRecord.End = .signedOut, now: Moment
    ) {
        if let heir = registrar.bindings.takeHeir(of: device) { handOver(from: device, to: heir, of: aor, now: now) }
        ledger.deviceRemoved(device, of: aor, into: &output.actions)
        if !messages.isEmpty { messagesLose(device, of: aor, now: now) }
        output.counters.count(.bindingRemoved)
        wakes.records.forget(device)
        for call in wakes.removed(device) {
            guard let branch = call.fork.waitingBranch(of: device) else { continue }
            output.counters.count(.heldDeviceGone)
            call.marks.insert(.phonesGone)
            ledger.drop(branch, of: call, now: now, into: &output.actions)
            ledger.ended(branch, of: call, cause, now: now, into: &output.actions)
            branchFailed(branch, of: call, with: .temporarilyUnavailable, now: now)
        }
    }

    /// The binding that gave a device its number was removed, and another binding of the device remains. Everything
    /// that waits for the device, and its missed calls, moves to the number of that binding.
    func handOver(from device: DeviceID, to heir: DeviceID, of aor: AddressOfRecord, now: Moment) {
        ledger.passOn(from: device, to: [heir], of: aor, into: &output.actions)
        let changes = messages.takenOver(by: heir, of: aor) { $0 == device }
        if !changes.isEmpty { act(.record(changes.map { .message($0) })) }
        let calls = wakes.renamed(device, to: heir)
        for call in calls { call.fork.renamed(device, to: heir) }
        guard wakes.isAsleep(heir) || calls.contains(where: { $0.fork.waitingBranch(of: heir) != nil }),
            let target = registrar.bindings.forkTarget(heir, now: now.instant)
        else { return }
        watch(target)
    }
}

/// Callers of an earlier run that connect again: the responses to their calls go to the new connections.
extension ProxyEngine {
    /// Arms the timer that ends the wait for callers of an earlier run. The wait is as long as a call can last.
    func armAwayCallers(now: Moment) {
        guard !calls.away.isEmpty || wakes.hasCallers else { return }
        let end = now.instant + settings.call.ringTimeout + settings.call.ringLimit
        _ = output.timers.schedule(.awayCallersDue, at: end)
    }

    /// A trusted peer has opened a connection: the responses to its calls go there.
    func peerReturned(_ incoming: IncomingRequest) {
        guard incoming.isTrusted else { return }
        for call in calls.away.take(of: incoming.flow.remote.address) { callerReturned(call, on: incoming.flow) }
    }

    /// Looks up the Via of a trusted peer that called over TLS (RFC 3261 section 18.2.2, RFC 3263 section 5). Responses
    /// need a new connection to that peer. The peer's certificate has to name the Via's host.
    func lookUpCaller(of call: ProxiedRequest, _ incoming: IncomingRequest) {
        guard incoming.flow.transport == .tls, incoming.isTrusted else { return }
        let via = incoming.request.via
        lookUp(NextHop(host: via.host, port: via.port, transport: .tls, isSecure: false), for: .caller(call))
    }

    /// The look-up of the caller has ended: responses to a caller who has not connected again open a connection to that
    /// address.
    func callerFound(_ call: ProxiedRequest, at hops: [ResolvedHop]) {
        let origin = call.source.remote.address
        guard calls.away.isAway(call), let server = call.server,
            let hop = hops.first(where: { hop in
                hop.transport == .tls && (hop.endpoint.address == origin || isTrusted(hop.endpoint))
                    && !identity.isOurs(.tls, hop.endpoint)
            }),
            let listener = identity.listener(for: .tls, to: hop.endpoint.address, preferring: call.source.listener)
        else { return }
        let flow = Flow(
            transport: .tls, listener: listener.number, connection: 0, remote: hop.endpoint, server: hop.server)
        withTransactions { $0.move(server, to: flow, into: &$1) }
    }

    /// A phone has registered: the responses to a call that it made go to its new flow.
    func callerReturned(_ call: ProxiedRequest, as device: DeviceID, now: Moment) {
        guard let target = registrar.bindings.forkTarget(device, now: now.instant) else { return }
        callerReturned(call, on: target.flow)
    }

    /// Moves the call's responses to this connection, if the INVITE's connection ended with an earlier run.
    func callerReturned(_ call: ProxiedRequest, on flow: Flow) {
        guard call.source.isClosed, flow.isConnection, let server = call.server else { return }
        withTransactions { $0.move(server, to: flow, into: &$1) }
    }
}

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
            network.flows.timers.registered(binding, on: flow, span: pause + Self.flowGrace, now: now.instant)
        }
        armFlowTimers()
    }

    /// A keep-alive, a request or a response came on the flow. This check costs nothing while no phone was told a
    /// Flow-Timer.
    func showedLife(on flow: Flow, now: Moment) {
        guard !network.flows.timers.isEmpty else { return }
        let span = settings.registrar.flowTimer + Self.flowGrace
        for binding in network.flows.timers.heard(flow, span: span, now: now.instant) {
            registrar.bindings.flowRevived(binding)
            armFlowTimers()
        }
    }

    /// How much longer than its Flow-Timer a phone may be silent. A keep-alive may be lost, and is then sent again.
    private static let flowGrace: Duration = .seconds(10)

    private func armFlowTimers() {
        guard !network.flows.isTimerArmed, let next = network.flows.timers.nextDeadline else { return }
        network.flows.isTimerArmed = true
        _ = output.timers.schedule(.flowTimersDue, at: next)
    }

    /// A silent flow is tried last, after the other flows of its phone, or the phone is woken by a push.
    func flowTimersDue(now: Moment) {
        network.flows.isTimerArmed = false
        let pause = settings.registrar.flowTimer
        // The setting was switched off, so phones are no longer asked to show life.
        guard pause > .zero else { return network.flows.timers = FlowTimers() }
        for _ in 0..<Self.flowBatch {
            let silent = network.flows.timers.fallenSilent(span: pause + Self.flowGrace, now: now.instant) {
                binding, flow in
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
