import Addressing
import Bytes
import PushDelivery
import Registration
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping

/// A request inside a dialog to a phone that a push can wake, as its call keeps it.
final class DialogRequest {
    let pass: DialogPass
    let next: RouteSet.Next
    let device: DeviceID
    /// The caller in whose share the request counts.
    let caller: Caller
    let isBye: Bool
    /// Whether the phone was woken for this request.
    var hasWoken = false
    /// When the wait ends, if it began in an earlier run of the program.
    var waitsUntil: Instant?

    init(_ pass: DialogPass, _ next: RouteSet.Next, to device: DeviceID, from caller: Caller, isBye: Bool) {
        self.caller = caller
        self.isBye = isBye
        self.pass = pass
        self.next = next
        self.device = device
    }
}

/// Wakes phones that fall asleep inside a dialog (RFC 8599 section 6). A request to such a phone wakes it by a push,
/// and waits until the phone registers.
///
/// Our own dialog token names the phone, so the phone need not write `pn-purr` into its Contact.
extension ProxyEngine {
    /// The request, if it is for a phone that a push can wake; `nil` for any other phone.
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

    /// Sends a request to the phone at the other end of its dialog, or wakes the phone.
    func sendInDialog(_ incoming: IncomingRequest, _ request: DialogRequest, now: Moment) {
        if let refusal = refusal(of: request) {
            counters.count(.shareUsedUp)
            return refuse(
                incoming, refusal, because: .calleeLimit, fields: [Self.retryAfter(seconds: 5)], now: now)
        }
        let parties = HeldShares.Parties(caller: request.caller)
        guard let (incoming, call) = startProxying(incoming, to: [request.device], parties: parties, now: now) else {
            return
        }
        sendTrying(incoming, now: now)
        call.purpose = .dialog(request)
        send(incoming, request, of: call, now: now)
    }

    /// Refuses a request if too many wait for its phone. A peer in a dialog could otherwise fill the memory and leave
    /// no room for others (T27.2, T32.3). A BYE always has room, but each side of a dialog may have only one waiting.
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

    /// Sends the request on the phone's flow, or lets it wait for the phone.
    ///
    /// - Parameters:
    ///   - incoming: the request.
    ///   - request: its dialog, phone and caller.
    ///   - call: the call that carries the request.
    ///   - code: the code of a push that an earlier run may have sent for the request.
    ///   - now: both clocks.
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
        edits.routes = request.next.rows
        transmit(incoming, edits, for: 0, of: call, on: flow, device: nil, alternatives: [], now: now)
    }

    /// The phone is back, so the request goes to the phone's present flow.
    func deliver(_ request: DialogRequest, of call: ProxiedRequest, to target: ForkTarget, now: Moment) {
        let flow = target.path.isEmpty ? target.flow : dialogHop(request.pass, request.next, now: now)
        guard let flow, let incoming = revive(call) else {
            return branchFailed(0, of: call, with: .temporarilyUnavailable, now: now)
        }
        call.fork.aimed(0, routeHash: target.routeHash)
        ledger.drop(0, of: call, now: now, into: &actions)
        log.info("request inside a dialog goes to its phone", [.device: .described(target.id)])
        transmit(incoming, request, of: call, on: flow, now: now)
    }

    // MARK: Waiting

    /// The connection on which the request was sent has ended.
    ///
    /// - Returns: false if the request is not inside a dialog, or no longer waits for an answer, or its phone cannot
    ///   be woken.
    func dialogFlowClosed(_ client: ClientTransactionID, _ leg: BranchLeg, now: Moment) -> Bool {
        guard let request = leg.call.dialogRequest, leg.call.fork.acceptsBranches,
            leg.call.fork.branches[leg.branch].isUnderWay(by: client),
            registrar.bindings.isPush(request.device)
        else { return false }
        transactions.connectionEnded(of: client)
        leg.call.fork.recalled(leg.branch)
        if let target = registrar.bindings.forkTarget(request.device, now: now.instant), isAwake(target) {
            deliver(request, of: leg.call, to: target, now: now)
        } else {
            waitInDialog(leg.call, request, now: now)
        }
        return true
    }

    /// The phone has no flow. The request waits for the phone, as long as its sender's transaction allows (RFC 4320).
    private func waitInDialog(
        _ call: ProxiedRequest, _ request: DialogRequest, again code: PushCode? = nil, now: Moment
    ) {
        guard let target = registrar.bindings.forkTarget(request.device, now: now.instant) else {
            return branchFailed(0, of: call, with: .temporarilyUnavailable, now: now)
        }
        call.fork.waits(0)
        list(0, of: call)
        watch(target)
        if call.deadline == .none {
            let time = call.fork.isInvite ? settings.call.ringTimeout : settings.messages.wait
            let end = min(request.waitsUntil ?? .distantFuture, now.instant + time)
            call.deadline = timers.schedule(.holdDeadline(place: call.place), at: end)
        }
        wakeInDialog(target, call, request, again: code, now: now)
    }

    /// Sends one silent push for a request, within the limit for notifications. `old` is the code of a push that an
    /// earlier run may have sent.
    func wakeInDialog(
        _ target: ForkTarget, _ call: ProxiedRequest, _ request: DialogRequest, again old: PushCode? = nil, now: Moment
    ) {
        guard !request.hasWoken, let token = target.pushToken, let aor = registrar.bindings.binding(target.binding)?.aor
        else { return }
        request.hasWoken = true
        // One push is enough for several requests: the phone that comes for the first request gets them all.
        let others = wakes.calls(of: request.device)
        guard !others.contains(where: { $0 !== call && $0.dialogRequest?.hasWoken == true }) else { return }
        guard old != nil || mayNotify(target.id, for: request.caller, now: now) else {
            log.info(
                "phone is not woken inside a dialog, there were too many pushes",
                [.aor: .described(aor), .device: .described(target.id)])
            return
        }
        ledger.limits.notified(target.id, for: request.caller, now: now.instant)
        var notification = PushNotification(expiresAt: now.date + settings.call.ringTimeout)
        notification.isSilent = true
        notification.destinationType = ByteString("dialog")
        notification.destinationContent = revive(call)?.request.callID.compacted() ?? .empty
        log.info(
            "phone is woken inside a dialog", [.aor: .described(aor), .device: .described(target.id)])
        let place = actions.count
        let push = notify(
            notification, old ?? ledger.newCode(), by: token, target, of: aor, as: .call(call, branch: 0), now: now)
        call.fork.pushAsked(0, push)
        journal(call, at: place)
    }
}
