import Addressing
import Bytes
import Calling
import LocationService
import Messaging
import ProxyPolicy
import PushDelivery
import PushPlanning
import Registration
import Routing
import SIPGrammar
import SIPTransactions
import ServiceEvents
import Telemetry
import Timekeeping
import Waking

/// Handles devices that register, send messages or are removed, and continues the calls and messages that wait for
/// these devices.
extension ProxyEngine {
    /// Counts the REGISTER of a phone with waiting calls, by the origin of the nonce: a challenge, a push or the
    /// binding.
    func countWake(of binding: DeviceID, by incoming: IncomingRequest) {
        guard let nonce = incoming.nonce, !wakes.isEmpty else { return }
        let device = registrar.bindings.device(of: binding)
        guard wakes.calls(of: device).contains(where: { $0.fork.waitingBranch(of: device) != nil }) else { return }
        switch nonce.origin {
        case .challenge: output.counters.count(.wakeChallenged)
        case .push: output.counters.count(.wakePushedNonce)
        case .binding: output.counters.count(.wakeKeptNonce)
        }
    }

    /// Handles a device that has registered with the new or refreshed `binding`. The parameter `isPush` says whether
    /// the binding has a push token; `nil` means that the method looks up the binding. The parameter `isElsewhere` says
    /// whether the device has registered at another node.
    func bindingReturned(
        _ binding: DeviceID, of aor: AddressOfRecord, isPush: Bool?, isElsewhere: Bool = false, now: Moment
    ) {
        let device = registrar.bindings.device(of: binding)
        wakes.records.returned(device, now: now.instant)
        // The node at which the phone has registered sends the list of missed calls, and only this node.
        let releases = isElsewhere ? wakes.showedLife(device) : wakes.returned(device)
        for release in releases { carryOut(release, for: device, of: aor, through: binding, now: now) }
        // The REGISTER of a contact without push token also releases calls for devices that an app reported over HTTP,
        // because both may be one phone.
        if !(isPush ?? registrar.bindings.isPush(device)) { contactReturned(device, of: aor, now: now) }
    }

    /// Notes a keep-alive or another message on a flow, and releases the calls that wait for the flow's device.
    ///
    /// A message on the phone's flow releases a call without a REGISTER, because an awake phone may not register after
    /// a push. A REGISTER releases calls only after the daemon has accepted the REGISTER, because another program at
    /// the address may have sent the REGISTER. While the store of a cluster is away, no REGISTER can be accepted, so a
    /// REGISTER counts like any other message. The wake records count the wake only if the message came on a
    /// connection, or was a response to the daemon (`isProved`), because datagrams can be forged.
    func noteLife(on flow: Flow, by sign: TimelineRecord.SignOfLife, isProved: Bool = false, now: Moment) {
        for binding in network.flows.heard(flow, span: keepAliveSpan, now: now.instant) {
            registrar.bindings.flowRevived(binding)
            armFlowTimers()
        }
        // While this node does not know what other nodes have taken over, only REGISTERs release calls, after a commit.
        guard !wakes.watchesNothing, !network.held.isBehind else { return }
        for device in wakes.watched(on: flow) {
            for call in wakes.calls(of: device) {
                guard let branch = call.fork.waitingBranch(of: device) else { continue }
                ledger.showedLife(call.fork.branches[branch], by: sign)
            }
            if isProved || flow.isConnection { wakes.records.returned(device, now: now.instant) }
            for release in wakes.showedLife(device) {
                carryOut(release, for: device, of: nil, through: nil, now: now)
            }
        }
    }

    /// Continues a call, message or other work that has waited for a device.
    ///
    /// The parameter `aor` is `nil` if the user must be looked up; `binding` is `nil` after a message other than a
    /// REGISTER.
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

    /// Handles a device that was removed from its AOR, for example because it has unregistered or its token is dead.
    func deviceRemoved(
        _ device: DeviceID, of aor: AddressOfRecord, _ removal: DeviceRemoval?,
        because cause: TimelineRecord.End = .signedOut, now: Moment
    ) {
        if let successor = registrar.bindings.takeSuccessor(of: device) {
            handOver(from: device, to: successor, of: aor, now: now)
            output.events.removed(device, of: aor, .replaced(by: successor), now: now, into: &output.actions)
        } else if let removal {
            output.events.removed(device, of: aor, removal, now: now, into: &output.actions)
        }
        ledger.deviceRemoved(device, of: aor, into: &output.actions)
        if !messages.isEmpty { messagesLose(device, of: aor, now: now) }
        output.counters.count(.bindingRemoved)
        wakes.records.forget(device)
        for call in wakes.removed(device) {
            guard let branch = call.fork.waitingBranch(of: device) ?? call.fork.delayedBranch(of: device) else {
                continue
            }
            output.counters.count(.heldDeviceGone)
            call.saw(.phonesGone)
            ledger.drop(branch, of: call, now: now, into: &output.actions)
            ledger.ended(branch, of: call, cause, now: now, into: &output.actions)
            branchFailed(branch, of: call, with: .temporarilyUnavailable, now: now)
        }
        noteUpstreamUser(aor, now: now)
    }

    /// Moves a device's waiting work and missed calls to another binding of the same device, because the device's first
    /// binding was removed.
    func handOver(from device: DeviceID, to successor: DeviceID, of aor: AddressOfRecord, now: Moment) {
        ledger.passOn(from: device, to: [successor], of: aor, into: &output.actions)
        let changes = messages.takenOver(by: successor, of: aor) { $0 == device }
        if !changes.isEmpty { act(.record(changes.map { .message($0) })) }
        if !calls.rules.isEmpty, let changed = calls.rules.renamed(device, to: successor, of: aor) {
            act(.record([.userRules(changed)]))
        }
        let calls = wakes.renamed(device, to: successor)
        for call in calls { call.fork.renamed(device, to: successor) }
        guard wakes.isAsleep(successor) || calls.contains(where: { $0.fork.waitingBranch(of: successor) != nil }),
            let target = registrar.bindings.forkTarget(successor, now: now.instant)
        else { return }
        watch(target)
    }
}

/// Reuses connections that trusted peers have opened.
extension ProxyEngine {
    /// Permits requests to a trusted peer over a connection that the peer opened, if the peer's Via contains `alias`
    /// (RFC 5923).
    ///
    /// A TLS connection is reused only if the peer's certificate proves the host name of the upstream.
    func noteReuse(_ incoming: IncomingRequest) {
        let (flow, via) = (incoming.flow, incoming.request.via)
        guard incoming.isTrusted, flow.isConnection, !flow.transport.isWebSocket, via.parameters.contains("alias")
        else {
            return
        }
        var server = ServerNumber.none
        if flow.transport.isSecure {
            guard let name = settings.upstream?.host.string.lowercased(), network.upstream.server != .none,
                network.flows.names(on: flow)?.contains(name) == true
            else { return }
            server = network.upstream.server
        }
        let port = via.port ?? (flow.transport.isSecure ? 5061 : 5060)
        act(.reuse(flow, as: Endpoint(flow.remote.address, port), server))
    }
}

/// Sends responses to calls that began before a restart on the callers' new connections.
extension ProxyEngine {
    /// Sets the timer that ends the wait for callers from before the restart; the timer fires after the longest
    /// possible duration of an unanswered call.
    func armAwayCallers(now: Moment) {
        guard !calls.away.isEmpty || wakes.hasCallers else { return }
        let end = now.instant + settings.call.ringTimeout + settings.call.ringLimit
        _ = output.timers.schedule(.awayCallersDue, at: end)
    }

    /// Moves the responses to a trusted peer's calls to the peer's new connection.
    func peerReturned(_ incoming: IncomingRequest) {
        guard incoming.isTrusted else { return }
        for call in calls.returned(incoming.flow.remote.address) { callerReturned(call, on: incoming.flow) }
    }

    /// Sends a call's responses on a new connection to the caller's address from DNS, unless the caller has already
    /// connected.
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
}

/// Checks the keep-alives of phones that got a Flow-Timer (RFC 5626 section 4.4).
extension ProxyEngine {
    /// Begins to check the keep-alives of a phone that got a Flow-Timer. The engine checks UDP flows, and the shell
    /// checks connections.
    func toldFlowTimer(_ bindings: some Sequence<DeviceID>, on flow: Flow, now: Moment) {
        let pause = settings.registrar.flowTimer
        guard pause > .zero else { return }
        if flow.isConnection { return act(.expectLife(flow, every: pause)) }
        guard !flow.transport.isReliable else { return }
        for binding in bindings {
            network.flows.toldTimer(binding, on: flow, span: keepAliveSpan, now: now.instant)
        }
        armFlowTimers()
    }

    /// How long a phone with a Flow-Timer may be silent before its flow is treated as failed.
    private var keepAliveSpan: Duration { settings.registrar.flowTimer + Self.flowGrace }

    /// How much longer than its Flow-Timer a phone may be silent before its flow is treated as failed, because one
    /// keep-alive may be lost.
    private static let flowGrace: Duration = .seconds(10)

    private func armFlowTimers() {
        if let next = network.flows.armsTimer() { _ = output.timers.schedule(.flowTimersDue, at: next) }
    }

    /// Marks flows without timely keep-alives as failed, so that other flows or a push are tried first.
    func flowTimersDue(now: Moment) {
        network.flows.timerDue()
        // The setting `flow-timer` is off, so the daemon expects no keep-alives.
        guard settings.registrar.flowTimer > .zero else { return network.flows.timersEnded() }
        for _ in 0..<Self.flowBatch {
            let silent = network.flows.fallenSilent(span: keepAliveSpan, now: now.instant) {
                binding, flow in
                registrar.bindings.binding(binding)?.flow == flow
            }
            guard let (flow, bindings) = silent else { break }
            for binding in bindings { registrar.bindings.flowFailed(binding) }
            log.info(
                "a phone sent nothing on its flow for too long, so the daemon treats the flow as lost",
                [.source: .described(flow.remote), .device: .described(bindings[0])])
        }
        armFlowTimers()
    }

    /// The number of silent flows that one step handles, so that calls need not wait when many flows become silent.
    private static let flowBatch = 500
}
