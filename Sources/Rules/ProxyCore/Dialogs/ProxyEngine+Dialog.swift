import Addressing
import Bytes
import Calling
import LocationService
import ProxyPolicy
import PushDelivery
import PushPlanning
import Registration
import Routing
import SIPDialogs
import SIPGrammar
import SIPTransactions
import Telemetry
package import Timekeeping
import Waking

/// Handles requests inside dialogs that this proxy has record-routed (T20).
extension ProxyEngine {
    func dialogRequestReceived(_ incoming: IncomingRequest, _ pass: DialogPass, _ next: RouteSet.Next, now: Moment) {
        guard isAlive(pass, now: now) else {
            refuse(incoming, .callDoesNotExist, now: now)
            return
        }
        guard admits(incoming, pass, now: now) else { return }
        if let breach = breach(of: incoming, pass) {
            // A request inside a dialog gets a server transaction before the checks; without a transaction, the ACK of
            // a refusal would be forwarded to the other side.
            guard let incoming = startTransaction(incoming, now: now) else { return }
            return refuse(incoming, by: breach, now: now)
        }
        renew(pass, now: now)
        let next = withoutGRUU(next, pass, now: now)
        let caller = caller(of: incoming, pass)
        guard admitsBesides(incoming, from: caller, now: now) else { return }
        if let request = dialogRequest(incoming, pass, next, from: caller) {
            return sendInDialog(incoming, request, now: now)
        }
        guard let hop = dialogHop(pass, next, now: now) else {
            if next.isSecure {
                refuse(incoming, .temporarilyUnavailable, fields: [sipsNotAllowed], now: now)
            } else {
                let (status, fields) = ownAnswer(.temporarilyUnavailable, to: incoming.request)
                refuse(incoming, status, fields: fields, now: now)
            }
            return
        }
        forward(incoming, from: caller, next, on: hop, pass, now: now)
    }

    /// The caller whose rate limits apply to a request inside a dialog: the user on the sending side.
    func caller(of incoming: IncomingRequest, _ pass: DialogPass) -> Caller {
        if case .phone(let device) = pass.sender.party, let aor = registrar.bindings.binding(device)?.aor {
            return Caller(user: aor)
        }
        return Caller(of: incoming.request, on: incoming.flow, isTrusted: incoming.isTrusted || pass.isFromPeer)
    }

    /// The rule that forbids a phone's request inside a dialog; `nil` if the request is allowed.
    private func breach(of incoming: IncomingRequest, _ pass: DialogPass) -> RequestRules.Breach? {
        guard !pass.isFromPeer else { return nil }
        if !keepsItsName(incoming, pass) { return .otherName }
        return incoming.isTrusted ? nil : RequestRules.insideDialogs(incoming.request)
    }

    /// Forwards the ACK of a 2xx without a transaction (RFC 3261 sections 16.10 and 17). An ACK that breaks a rule for
    /// requests inside dialogs is dropped, because an ACK gets no response.
    func ackReceived(_ incoming: IncomingRequest, now: Moment) {
        let request = incoming.request
        guard request.maxForwards != 0,
            case .dialog(let pass, let next) = route(of: request),
            isAlive(pass, now: now), isAtHome(incoming.flow, pass, now: now),
            let flow = dialogHop(pass, next, now: now), !identity.isOurs(flow.transport, flow.remote),
            request.uri.scheme != .sips || incoming.flow.transport.isSecure && flow.transport.isSecure,
            let listener = identity.listener(flow.listener),
            let number = sip.makeClientTransaction()
        else { return }
        // An ACK has no client transaction. Its transaction id is used only to make the branch in Via unique.
        defer { sip.discard(number) }
        var edits = RequestEdits(
            requestURI: withoutGRUU(next, pass, now: now).requestURI.text,
            via: via(for: number, listener: listener, incoming),
            maxForwards: (request.maxForwards ?? 71) - 1)
        edits.routes = dialogRoutes(pass, next, now: now)
        edits.topViaAddition = incoming.viaAddition
        strip(&edits, of: incoming, to: flow.remote)
        act(.send(request.forwarded(edits).bytes, on: flow))
        journalACK(request, now: now)
    }

    /// Forwards a CANCEL inside a dialog if no INVITE transaction of this daemon matches the CANCEL (RFC 3261 section
    /// 16.10).
    ///
    /// A CANCEL cannot be challenged, so the sender must be known by its flow (RFC 3261 section 22.1). A CANCEL whose
    /// next hop cannot be found gets 481.
    func dialogCancelReceived(_ incoming: IncomingRequest, _ pass: DialogPass, _ next: RouteSet.Next, now: Moment) {
        guard isAlive(pass, now: now), isAtHome(incoming.flow, pass, now: now),
            let hop = dialogHop(pass, next, now: now)
        else { return refuse(incoming, .callDoesNotExist, now: now) }
        let caller = caller(of: incoming, pass)
        guard admitsBesides(incoming, from: caller, now: now) else { return }
        forward(incoming, from: caller, next, on: hop, pass, now: now)
    }

    func forward(
        _ incoming: IncomingRequest, from caller: Caller, _ next: RouteSet.Next, on hop: Flow, _ pass: DialogPass,
        now: Moment
    ) {
        let parties = HeldShares.Parties(caller: caller)
        guard let (incoming, call) = startProxying(incoming, to: [nil], parties: parties, now: now) else { return }
        sendTrying(incoming, now: now)
        forward(incoming, next, of: call, on: hop, pass, now: now)
    }

    func forward(
        _ incoming: IncomingRequest, _ next: RouteSet.Next, of call: ProxiedRequest, on hop: Flow, _ pass: DialogPass,
        now: Moment
    ) {
        var edits = RequestEdits(requestURI: next.requestURI.text, via: .empty, maxForwards: 70)
        edits.routes = dialogRoutes(pass, next, now: now)
        transmit(
            incoming, edits, for: 0, of: call, on: hop, device: nil,
            alternatives: insteadOfConnection(hop, pass, next), mayUseTCP: mayUseTCP(pass, next), now: now)
    }

    // MARK: How long (T20.5)

    /// Restores the expiry time of a dialog that was renewed before the daemon restarted.
    package func restoreDialog(_ digest: UInt64, until: UnixTime, now: Moment) {
        dialogs.renewals.renew(digest, until: until, now: now.date)
    }
}

/// Wakes a sleeping phone for a request inside a dialog (RFC 8599 section 6): the request waits until the push makes
/// the phone register.
///
/// A phone in a dialog needs no `pn-purr` in its Contact, because the dialog token in the Record-Route names the phone.
extension ProxyEngine {
    /// The dialog and phone of a request inside a dialog; `nil` if no push can wake the phone.
    func dialogRequest(
        _ incoming: IncomingRequest, _ pass: DialogPass, _ next: RouteSet.Next, from caller: Caller
    ) -> DialogRequest? {
        guard settings.call.wakesInDialogs, !next.isSecure, case .phone(let device) = pass.receiver.party,
            registrar.bindings.isPush(device)
        else { return nil }
        return DialogRequest(
            pass, next, to: registrar.bindings.device(of: device), from: caller,
            isBye: incoming.request.method == .bye)
    }

    /// Sends a request inside a dialog to the phone; if the phone sleeps, wakes the phone by a push.
    func sendInDialog(_ incoming: IncomingRequest, _ request: DialogRequest, now: Moment) {
        if let refusal = refusal(of: request) {
            output.counters.count(.shareUsedUp)
            return refuse(
                incoming, refusal, because: .calleeLimit, fields: [Self.retryAfter(seconds: 5)], now: now)
        }
        let parties = HeldShares.Parties(caller: request.caller)
        guard let (incoming, call) = startProxying(incoming, to: [request.device], parties: parties, now: now) else {
            return
        }
        sendTrying(incoming, now: now)
        call.turned(into: .dialog(request))
        send(incoming, request, of: call, now: now)
    }

    /// The status that refuses a request inside a dialog when too many requests wait for its phone; `nil` if the
    /// request may wait.
    ///
    /// The number of waiting requests is limited, because one peer could fill the memory with requests inside a dialog
    /// (T27.2, T32.3). A BYE may always wait for a phone, but each side of a dialog can have only one waiting BYE.
    private func refusal(of request: DialogRequest) -> Status? {
        var taken = FairShare.Taken(all: 0, untrusted: 0, own: 0)
        for case let other? in wakes.calls(of: request.device).lazy.map(\.dialogRequest) {
            if other.isBye {
                let isSame =
                    other.pass.digest == request.pass.digest && other.pass.isFromCaller == request.pass.isFromCaller
                if request.isBye, isSame { return .serverError }
            } else {
                taken.all += 1
                if !other.caller.isTrusted { taken.untrusted += 1 }
                if other.caller == request.caller { taken.own += 1 }
            }
        }
        guard !request.isBye else { return nil }
        let share = settings.share(of: Self.mostWaiting)
        return share.refusal(beside: taken, isTrusted: request.caller.isTrusted) == nil ? nil : .serviceUnavailable
    }

    /// Sends a request inside a dialog on its phone's flow, or lets the request wait until the phone registers. The
    /// parameter `code` is the code of a push that the daemon may have sent for the same request before a restart.
    func send(
        _ incoming: IncomingRequest, _ request: DialogRequest, of call: ProxiedRequest, again code: PushCode? = nil,
        now: Moment
    ) {
        guard let flow = dialogHop(request.pass, request.next, now: now) else {
            return waitInDialog(call, request, again: code, now: now)
        }
        call.fork.aimed(0, routeHash: flow.hashValue)
        transmit(incoming, request, of: call, on: flow, now: now)
        guard call.fork.branches[0].isUnderWay else { return }
        armSilence(of: call, now: now)
    }

    private static let mostWaiting = 16

    private func transmit(
        _ incoming: IncomingRequest, _ request: DialogRequest, of call: ProxiedRequest, on flow: Flow, now: Moment
    ) {
        var edits = RequestEdits(requestURI: request.next.requestURI.text, via: .empty, maxForwards: 70)
        edits.routes = dialogRoutes(request.pass, request.next, now: now)
        transmit(incoming, edits, for: 0, of: call, on: flow, device: nil, alternatives: [], now: now)
    }

    /// Sends a request that waited inside its dialog on the flow of its phone's new registration.
    func deliver(_ request: DialogRequest, of call: ProxiedRequest, to target: ForkTarget, now: Moment) {
        let flow = target.path.isEmpty ? target.flow : dialogHop(request.pass, request.next, now: now)
        guard let flow, let incoming = revive(call) else {
            return branchFailed(0, of: call, with: .temporarilyUnavailable, now: now)
        }
        call.fork.aimed(0, routeHash: target.routeHash)
        ledger.drop(0, of: call, now: now, into: &output.actions)
        log.info(
            "a phone is awake again, so the daemon sends it the waiting request inside a dialog",
            [.device: .described(target.id)])
        transmit(incoming, request, of: call, on: flow, now: now)
    }

    // MARK: Waiting

    /// Handles the closed connection of a request inside a dialog: sends the request on the phone's new flow, or lets
    /// the request wait for the phone.
    ///
    /// - Returns: false if the request is outside a dialog, has a final response, or has a phone that cannot be woken.
    func dialogFlowClosed(_ client: ClientTransactionID, _ leg: BranchLeg, now: Moment) -> Bool {
        guard let request = leg.call.dialogRequest, leg.call.fork.acceptsBranches,
            leg.call.fork.branches[leg.branch].isUnderWay(by: client),
            registrar.bindings.isPush(request.device)
        else { return false }
        sip.connectionEnded(of: client)
        let failed = leg.call.fork.branches[leg.branch].routeHash
        leg.call.fork.recalled(leg.branch)
        if let target = registrar.bindings.forkTarget(request.device, now: now.instant), hop(to: target).isOpen,
            // Without this check, a node that cannot be reached would be tried again and again without a pause.
            target.routeHash != failed || !network.flows.isAtOtherNode(target.path)
        {
            deliver(request, of: leg.call, to: target, now: now)
        } else {
            waitInDialog(leg.call, request, now: now)
        }
        return true
    }

    /// Lets a request inside a dialog wait until its phone registers, but no longer than the sender's transaction lasts
    /// (RFC 4320).
    private func waitInDialog(
        _ call: ProxiedRequest, _ request: DialogRequest, again code: PushCode? = nil, now: Moment
    ) {
        guard let target = registrar.bindings.forkTarget(request.device, now: now.instant) else {
            return branchFailed(0, of: call, with: .temporarilyUnavailable, now: now)
        }
        call.fork.waits(0)
        list(0, of: call, watching: target)
        if call.deadline == .none {
            let time = call.fork.isInvite ? settings.call.ringTimeout : settings.messages.wait
            let end = min(request.waitsUntil ?? .distantFuture, now.instant + time)
            call.waits(until: output.timers.schedule(.holdDeadline(place: call.place), at: end))
        }
        wakeInDialog(target, call, request, again: code, now: now)
    }

    /// Sends one silent push that wakes a phone for a request inside a dialog, if the limit on notifications allows it.
    /// The parameter `old` is the code of a push that the daemon may have sent for the same request before a restart.
    func wakeInDialog(
        _ target: ForkTarget, _ call: ProxiedRequest, _ request: DialogRequest, again old: PushCode? = nil, now: Moment
    ) {
        guard !request.hasWoken, let token = target.pushToken, let aor = registrar.bindings.binding(target.binding)?.aor
        else { return }
        request.wokePhone()
        // One push wakes the phone for all waiting requests, so a second waiting request sends no push.
        let others = wakes.calls(of: request.device)
        guard !others.contains(where: { $0 !== call && $0.dialogRequest?.hasWoken == true }) else { return }
        guard old != nil || mayNotify(target.id, for: request.caller, now: now) else {
            log.info(
                "the daemon sends no push for a request inside a dialog, because the phone has reached its limit of pushes",
                [.aor: .described(aor), .device: .described(target.id)])
            return
        }
        ledger.notified(target.id, for: request.caller, now: now.instant)
        var notification = PushNotification(expiresAt: now.date + settings.call.ringTimeout)
        notification.isSilent = true
        notification.destinationType = ByteString("dialog")
        notification.destinationContent = revive(call)?.request.callID.compacted() ?? .empty
        log.info(
            "the daemon sends a push to wake a phone for a request inside a dialog",
            [.aor: .described(aor), .device: .described(target.id)])
        journal(call) {
            notify(
                notification, old ?? ledger.newCode(), by: token, target, of: aor, as: .call(call, branch: 0), now: now)
        }
    }
}
