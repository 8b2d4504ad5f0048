import Addressing
import Bytes
import Registration
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping

/// Carries out the orders of forks.
extension ProxyEngine {
    func branchFailed(_ branch: Int, of call: ProxiedRequest, with status: Status, now: Moment) {
        update(call, now: now) { $0.failed(branch, with: status, response: nil) }
    }

    /// Applies an event to a fork, carries out the fork's orders, and tells the ledger and the journal.
    func update(_ call: ProxiedRequest, now: Moment, _ event: (inout Fork) -> [Fork.Order]) {
        guard !call.isForgotten else { return }
        for order in event(&call.fork) { carryOut(order, for: call, now: now) }
        if call.fork.isAnswered, !call.wasAnswered { ledger.answered(call, now: now, into: &actions) }
        releaseEnded(call, now: now)
        ledger.changed(call, now: now, into: &actions)
        ledger.tellBucket(of: call, into: &actions)
        journal(call)
        if call.fork.phase == .ended || call.fork.phase == .answered { finish(call, now: now) }
    }

    func carryOut(_ order: Fork.Order, for call: ProxiedRequest, now: Moment) {
        guard let server = call.server else {
            if let delivery = call.delivery { unsettled.append(EndedDelivery(delivery, of: call, order)) }
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
        case .respond(let status): respond(server, status, insteadOf: nil, of: call, now: now)
        case .respondInstead(of: let response, let status):
            respond(server, status, insteadOf: response, of: call, now: now)
        case .giveUp:
            // The transactions send no 408 to a non-INVITE: they only end (RFC 4320 section 4.2).
            respond(server, .requestTimeout, [], now: now)
        case .cancel(let client, let reason):
            let reasons = reason.fields(callerReasons: call.callerReasons)
            withTransactions { $0.cancel(client, reasons: reasons, now: now.instant, into: &$1) }
        case .stopWaiting(let branch): stoppedWaiting(branch, of: call, now: now)
        case .hangUp(let response, let branch): hangUp(branch, of: call, response, now: now)
        }
    }

    /// Sends a final response of our own.
    func respond(
        _ server: ServerTransactionID, _ status: Status, insteadOf response: SIPResponse?, of call: ProxiedRequest,
        now: Moment
    ) {
        guard let incoming = revive(call) else { return }
        let (status, own) = ownAnswer(
            status, to: incoming.request, insteadOf: response, wasWoken: call.dialogRequest?.hasWoken == true)
        // A 503 of a branch is not passed on (RFC 3261 section 16.7). So a 503 here is our own: the upstream is away.
        let fields = status == .serviceUnavailable && call.outgoing != nil ? own + upstreamIsAway : own
        let bytes = incoming.response(status, toTag: tags.next(), fields: fields)
        respond(server, status, bytes, of: call, now: now)
    }

    func respond(
        _ server: ServerTransactionID, _ status: Status, _ bytes: [UInt8], of call: ProxiedRequest, now: Moment
    ) {
        if status.isFinal, !status.isSuccess { journalRefusal(bytes, of: call) }
        respond(server, status, bytes, now: now)
    }

    /// The response as the caller gets it; `nil` if the response has too few Vias and the request's bytes are gone.
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

    /// Drops pushes of branches that are over, and removes the call from their devices.
    func releaseEnded(_ call: ProxiedRequest, now: Moment) {
        guard call.userCall != nil || call.dialogRequest != nil else { return }
        for index in call.fork.branches.indices where call.fork.branches[index].isEnded {
            ledger.drop(index, of: call, now: now, into: &actions)
        }
        unlistEnded(call)
    }

    /// Branches that are over are not found by their devices any more.
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

    /// The final response was sent: frees what only an active call needs.
    func finish(_ call: ProxiedRequest, now: Moment) {
        timers.cancel(call.deadline)
        call.deadline = .none
        outgoingEnded(call)
        rememberEnded(call, now: now)
        calls.finish(call)
    }
}
