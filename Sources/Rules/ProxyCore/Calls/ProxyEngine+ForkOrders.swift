import Addressing
import Bytes
import Calling
import Collections
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
import Timekeeping
import Waking

/// Carries out the orders that a call's ``Fork`` returns.
extension ProxyEngine {
    func branchFailed(_ branch: Int, of call: ProxiedRequest, with status: Status, now: Moment) {
        // Another node pushes the phone after a 430 (RFC 5626 section 5.3.1).
        let isFlowGone = status == .serviceUnavailable && network.flows.cameFromNode(call.source)
        update(call, now: now) { $0.failed(branch, with: isFlowGone ? .flowFailed : status, response: nil) }
    }

    /// Applies an event to the fork of a call, and carries out the orders that the fork returns. Then it writes the
    /// changes to the push ledger and the journal.
    func update(_ call: ProxiedRequest, now: Moment, _ event: (inout Fork) -> [Fork.Order]) {
        guard !call.isForgotten else { return }
        for order in event(&call.fork) { carryOut(order, for: call, now: now) }
        if call.fork.isAnswered, !call.wasAnswered { ledger.answered(call, now: now, into: &output.actions) }
        releaseEnded(call, now: now)
        ledger.changed(call, now: now, into: &output.actions)
        ledger.tellBucket(of: call, into: &output.actions)
        journal(call)
        if call.fork.phase == .ended || call.fork.phase == .answered { finish(call, now: now) }
    }

    func carryOut(_ order: Fork.Order, for call: ProxiedRequest, now: Moment) {
        guard let server = call.server else {
            if let delivery = call.delivery { sip.unsettled.append(EndedDelivery(delivery, of: call, order)) }
            return
        }
        switch order {
        case .relay(let response):
            guard let bytes = upstream(response, of: call) else { return }
            if response.status.isSuccess { journalAnswer(response, of: call, now: now) }
            respond(server, response.status, bytes, of: call, now: now)
        case .relayChallenge(let response, let others):
            guard let bytes = upstream(response, of: call, adding: others.flatMap(Self.challenges)) else { return }
            respond(server, response.status, bytes, of: call, now: now)
        case .respond(.requestTerminated) where isUnheardAtNode(call):
            respond(server, .requestTimeout, insteadOf: nil, of: call, now: now)
        case .respond(let status): respond(server, status, insteadOf: nil, of: call, now: now)
        case .respondInstead(of: let response, let status):
            respond(server, status, insteadOf: response, of: call, now: now)
        case .giveUp:
            // A transaction of a request other than INVITE ends without sending the 408 (RFC 4320 section 4.2).
            respond(server, .requestTimeout, [], now: now)
        case .cancel(let client, let reason):
            let reasons = reason.fields(callerReasons: call.callerReasons)
            withTransactions { $0.cancel(client, reasons: reasons, now: now.instant, into: &$1) }
        case .forward: sip.unsettled.append(forwardOf: call)
        case .startNextGroup: sip.unsettled.append(turnOf: call)
        case .stopWaiting(let branch): stoppedWaiting(branch, of: call, now: now)
        case .hangUp(let response, let branch, let client): hangUp(branch, of: call, by: client, response, now: now)
        }
    }

    /// Whether a phone has not responded to the INVITE of another node. After a 487, the other node would believe that the
    /// phone knows the call.
    private func isUnheardAtNode(_ call: ProxiedRequest) -> Bool {
        network.flows.cameFromNode(call.source) && !call.fork.branches.contains(where: \.wasHeard)
    }

    /// Sends the caller a final response that the proxy itself creates.
    func respond(
        _ server: ServerTransactionID, _ status: Status, insteadOf response: SIPResponse?, of call: ProxiedRequest,
        now: Moment
    ) {
        guard let incoming = revive(call) else { return }
        let isNoWake = call.userCall != nil && status == .temporarilyUnavailable && call.fork.foundNobody
        let (status, own) =
            isNoWake
            ? noWakeAnswer(of: call)
            : ownAnswer(
                status, to: incoming.request, insteadOf: response, wasWoken: call.dialogRequest?.hasWoken == true)
        // A 503 in response to a phone's INVITE always comes from the proxy itself, because a fork never forwards the
        // 503 of a branch (RFC 3261 section 16.7).
        let fields = status == .serviceUnavailable && call.outgoing != nil ? own + upstreamIsAway : own
        let bytes = incoming.response(status, toTag: sip.tags.next(), fields: fields)
        respond(server, status, bytes, of: call, now: now)
    }

    func respond(
        _ server: ServerTransactionID, _ status: Status, _ bytes: [UInt8], of call: ProxiedRequest, now: Moment
    ) {
        if status.isFinal, !status.isSuccess { journalRefusal(bytes, of: call) }
        if status.isFinal { call.answered(with: status) }
        respond(server, status, bytes, now: now)
    }

    /// The status and the header fields of the daemon's own final response to a request that failed.
    ///
    /// Inside a dialog, the proxy replaces a `status` that would end the dialog. If the daemon's response replaces
    /// another server's `response`, the daemon keeps the header fields `Reason` of that response. They say why the call
    /// failed (RFC 6432). The parameter `wasWoken` says whether a push woke the phone for the request.
    func ownAnswer(
        _ status: Status, to request: SIPRequest, insteadOf response: SIPResponse? = nil, wasWoken: Bool = false
    ) -> (Status, [AddedField]) {
        var fields = response?.frame.values(of: .reason).map { AddedField("Reason", $0) } ?? []
        if status == .badGateway { fields.append(warning(Self.unanswerable)) }
        guard request.to.tag != nil else { return (status, fields) }
        let inside = DialogStatus.inside(status, request.method, wasWoken: wasWoken)
        if inside == .serverError, request.method != .bye {
            fields.append(Self.retryAfter(seconds: DialogStatus.retryAfter))
        }
        return (inside, fields)
    }

    /// Sends the responses to a phone's call on the phone's new flow.
    func callerReturned(_ call: ProxiedRequest, as device: DeviceID, now: Moment) {
        guard let target = registrar.bindings.forkTarget(device, now: now.instant) else { return }
        callerReturned(call, on: target.flow)
    }

    /// Sends the responses to a call on a new connection, if the INVITE's connection ended with the daemon's earlier
    /// run.
    func callerReturned(_ call: ProxiedRequest, on flow: Flow) {
        guard call.source.isClosed, flow.isConnection, let server = call.server else { return }
        withTransactions { $0.move(server, to: flow, into: &$1) }
    }

    /// The action for a call if no phone wakes: a final response, a redirect or a forward.
    func noWakePlan(of call: ProxiedRequest) -> NoWakePlan {
        guard let userCall = call.userCall else { return .answer(.temporarilyUnavailable) }
        return noWakePlan(for: userCall.aor, isTrusted: call.isTrusted) { revive(call)?.request }
    }

    /// The action for an INVITE to the user `aor` if no phone wakes: a final response, a redirect or a forward. The
    /// closure `request` parses the INVITE. Few actions need the parsed INVITE, so the closure is rarely called.
    func noWakePlan(
        for aor: AddressOfRecord, isTrusted: Bool, _ request: () -> SIPRequest?
    ) -> NoWakePlan {
        let noWake = settings.call.noWake
        var circumstances = NoWakePlan.Circumstances(
            isTrusted: isTrusted, hasUpstream: upstream(of: aor.host).map { !$0.isAway } ?? false,
            wasDiverted: false)
        if isTrusted, noWake.settings(for: aor).action != .answer, let request = request() {
            let diversions = Diversions(request.frame)
            circumstances.wasDiverted = diversions.count >= Diversions.most || diversions.names(aor)
        }
        return NoWakePlan(noWake, for: aor, circumstances)
    }

    /// The final response to a call for which no phone woke, and the header fields to add to the response.
    func noWakeAnswer(of call: ProxiedRequest) -> (Status, [AddedField]) {
        let plan = noWakePlan(of: call)
        if case .redirect = plan { call.saw(.redirected) }
        if case .answer = plan, let status = calls.silenceStatus(of: call) { return (status, []) }
        return (plan.status, plan.fields)
    }

    /// Notes that a call waited in vain for a branch's device, so that later calls can wait for a shorter time.
    func missed(_ branch: Int, of call: ProxiedRequest, now: Moment) {
        if let device = call.fork.branches[branch].device { wakes.records.missed(device, now: now.instant) }
    }

    /// The bytes of a response without the proxy's own Via; `nil` if the caller's Via is not known.
    func upstream(
        _ response: SIPResponse, of call: ProxiedRequest, adding fields: [AddedField] = []
    ) -> [UInt8]? {
        if response.viaCount > 1 { return response.withoutTopVia(adding: fields) }
        return revive(call).map {
            response.withVias(of: $0.request.frame, topViaAddition: $0.viaAddition, adding: fields)
        }
    }

    static func challenges(of response: SIPResponse) -> [AddedField] {
        response.frame.values(of: .wwwAuthenticate).map { AddedField("WWW-Authenticate", $0) }
            + response.frame.values(of: .proxyAuthenticate).map { AddedField("Proxy-Authenticate", $0) }
    }

    /// Drops the pushes of a call's ended branches, and removes the call from the waiting lists of these branches'
    /// devices.
    func releaseEnded(_ call: ProxiedRequest, now: Moment) {
        guard call.userCall != nil || call.dialogRequest != nil else { return }
        for index in call.fork.branches.indices where call.fork.branches[index].isEnded {
            ledger.drop(index, of: call, now: now, into: &output.actions)
        }
        unlistEnded(call)
    }

    /// Removes the call from the waiting list of each device for which all branches of the call have ended.
    private func unlistEnded(_ call: ProxiedRequest) {
        for index in call.fork.branches.indices {
            guard call.fork.branches[index].isEnded, call.fork.branches[index].isListed else { continue }
            call.fork.wasUnlisted(index)
            let branch = call.fork.branches[index]
            for case let device? in [branch.device, branch.contact]
            where !call.fork.branches.contains(where: { $0.isOf(device) && !$0.isEnded }) {
                wakes.noLongerWaits(call, for: device)
            }
        }
    }

    /// Finishes a call after its final response: stops its timers, writes its log line, and frees memory.
    func finish(_ call: ProxiedRequest, now: Moment) {
        output.timers.cancel(call.stopsWaiting())
        outgoingEnded(call)
        tellEnd(of: call, now: now)
        rememberEnded(call, now: now)
        withdraw(call)
        calls.finish(call)
    }

    /// Withdraws a call from the store of several nodes, because it no longer waits.
    func withdraw(_ call: ProxiedRequest) {
        // The store has no call of a phone without a checked password.
        guard network.flows.haveNodes, let key = call.userCall?.key, call.isTrusted || call.sender != nil else {
            return
        }
        withdraw(HeldCallKey(aor: key.aor, callID: key.callID, phoneOf: call.isTrusted ? nil : call.sender))
    }

    func withdraw(_ key: HeldCallKey) {
        guard network.flows.haveNodes else { return }
        network.held.ended(key)
        act(.endInvite(key.aor, callID: key.callID))
    }
}

/// Writes the journal of active calls, so that waiting and ringing calls survive a restart of the daemon.
///
/// A change of a call is written to the journal before the messages and pushes that follow from the change are sent. A
/// call stays in the journal until its caller has acknowledged the final response; for a 2xx, see ``AnsweredCalls``.
extension ProxyEngine {
    /// Writes a new call into the call journal, before the messages and pushes that `order` orders. The entry has the
    /// state of the call after `order`.
    func journalBegun(_ call: ProxiedRequest, now: Moment, before order: () -> Void = {}) {
        let place = output.actions.count
        order()
        guard call.journalling != .off else { return }
        let request = call.request.unpacked(functions.packing)
        guard let stored = StoredCall(call, request, receivedAt: now.date, code: { ledger.pushes[$0]?.code }) else {
            call.journalEnded()
            return
        }
        if network.flows.haveNodes, let phones = HeldInvite(ofPhone: .begun(stored)) { network.held.stores(phones.key) }
        output.actions.insert(.journal(.begun(stored)), at: place)
        for index in call.fork.branches.indices { call.fork.wasWritten(index) }
    }

    /// Writes into the journal that the INVITE of a branch is sent.
    func journalSent(_ branch: Int, of call: ProxiedRequest, _ edits: RequestEdits, on flow: Flow) {
        guard call.journalling != .off else { return }
        let sent = StoredCall.SentINVITE(
            via: edits.via, requestURI: edits.requestURI, routes: edits.routes ?? [], flow: flow)
        act(.journal(change(of: branch, of: call, sent)))
    }

    /// Writes the changed branches of a call into the journal, if the journal has the call. The entries come before the
    /// messages and pushes that `order` orders, and have the state of the branches after `order`.
    func journal(_ call: ProxiedRequest, before order: () -> Void = {}) {
        var place = output.actions.count
        order()
        guard call.journalling != .off else { return }
        for index in call.fork.branches.indices where call.fork.branches[index].hasNews {
            output.actions.insert(.journal(change(of: index, of: call)), at: place)
            place += 1
        }
    }

    private func change(
        of index: Int, of call: ProxiedRequest, _ sent: StoredCall.SentINVITE? = nil
    ) -> CallChange {
        call.fork.wasWritten(index)
        let branch = call.fork.branches[index]
        let code = branch.push.flatMap { ledger.pushes[$0]?.code }
        return .branch(call: call.id.rawValue, number: index, StoredCall.Branch(branch, code: code, sent: sent))
    }

    /// Writes into the journal that the caller gets a final response other than 2xx.
    func journalRefusal(_ bytes: [UInt8], of call: ProxiedRequest) {
        guard call.journalling == .open else { return }
        act(.journal(.final(call: call.id.rawValue, bytes)))
    }

    /// Notes that the caller gets a phone's 2xx, so that the journal drops the call some seconds later.
    func journalAnswer(_ response: SIPResponse, of call: ProxiedRequest, now: Moment) {
        guard call.journalling != .off else { return }
        let dialog = AnsweredCalls.dialogKey(response.callID, response.to.tag, response.cseq.number)
        calls.answered(call, in: dialog, now: now.instant)
        armJournal()
    }

    /// Notes that the ACK of a 2xx was sent to the phone, so that the journal can drop the call earlier.
    func journalACK(_ request: SIPRequest, now: Moment) {
        guard !calls.answered.isEmpty else { return }
        calls.acknowledged(
            AnsweredCalls.dialogKey(request.callID, request.to.tag, request.cseq.number), now: now.instant)
    }

    /// Keeps a resumed call in the journal for some more seconds if the daemon's earlier run sent the 2xx, because the
    /// ACK may still be missing.
    func keepAnswered(_ call: ProxiedRequest, now: Moment) {
        calls.resumeAnswered(call, now: now.instant)
        armJournal()
    }

    private func armJournal() {
        if let end = calls.journalTimerWanted() { _ = output.timers.schedule(.journalDue, at: end) }
    }

    func journalDue(now: Moment) {
        guard calls.journalTimerFired(now: now.instant) else { return }
        while let call = calls.popAnswered(now: now.instant) { journalOver(call) }
        armJournal()
    }

    /// Removes a refused call from the journal, because its caller has sent the ACK or its transaction has ended
    /// without an ACK.
    func journalOver(_ server: ServerTransactionID) {
        if let call = calls.call(of: server), call.journalling == .open { journalOver(call) }
    }

    private func journalOver(_ call: ProxiedRequest) {
        call.journalEnded()
        act(.journal(.over(call: call.id.rawValue)))
    }
}

/// Sets the timers of a call: one for its wait for phones, and one for the first response to its INVITE.
extension ProxyEngine {

    /// How long the engine waits for the first response to a request. After this time, the engine treats the flow as
    /// dead, or the phone as asleep.
    static let patience: Duration = .seconds(3)

    func armSilence(of call: ProxiedRequest, now: Moment) {
        _ = output.timers.schedule(.silence(place: call.place, call.id), at: now.instant + Self.patience)
    }
}

/// Counts and records calls that phones make through the upstream.
extension ProxyEngine {
    /// The Warning and Retry-After fields of the 503 that a phone gets while the upstream does not answer.
    var upstreamIsAway: [AddedField] {
        [
            .warning(399, by: identity.domains.first ?? ByteString("sippushd"), "The upstream does not answer"),
            Self.retryAfter(seconds: 10),
        ]
    }

    /// Starts the time measurement and the timeline record of a phone's call to the upstream. The parameter `earlier`
    /// is the start of the call if an earlier run of the daemon began it.
    func outgoingBegan(
        _ call: ProxiedRequest, _ incoming: IncomingRequest, _ next: RouteSet.Next, since earlier: UnixTime? = nil,
        now: Moment
    ) {
        let date = min(earlier ?? now.date, now.date)
        call.turned(into: .outgoing(OutgoingCall(since: now.instant + (date - now.date))))
        if earlier == nil { output.counters.count(.outgoingCall) }
        guard let caller = identity.callingUser(of: incoming) else { return }
        ledger.began(call, of: caller, to: next.requestURI.text, incoming, since: date, now: now)
    }

    /// Measures the time from the INVITE to the upstream's first response other than 100.
    func noteRinging(_ outgoing: OutgoingCall, now: Moment) {
        guard outgoing.heard() else { return }
        output.counters.observe(.upstreamAnswer, now.instant - outgoing.since)
    }

    /// Counts the result of an outgoing call, once, when its caller has got the final response.
    func outgoingEnded(_ call: ProxiedRequest) {
        guard let outgoing = call.outgoing, !outgoing.isCounted else { return }
        outgoing.counted()
        output.counters.count(Counter(outgoing: call.fork.branches.first?.end))
    }
}

extension Counter {
    fileprivate init(outgoing end: ForkBranch.End?) {
        switch end {
        case .succeeded: self = .outgoingAnswered
        case .failed: self = .outgoingRefused
        case .gaveUp(.requestTimeout), .silent, nil: self = .outgoingUnanswered
        case .gaveUp: self = .outgoingUnreachable
        case .cancelled: self = .outgoingGivenUp
        }
    }
}
