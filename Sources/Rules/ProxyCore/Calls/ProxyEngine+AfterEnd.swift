import Addressing
import Bytes
import Collections
import PushDelivery
import Registration
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping

/// Phones that were woken for a call and register after the call's end.
extension ProxyEngine {

    /// Whether a phone that got a call's INVITE late still gets this call in its list of missed calls. The token's app
    /// decides.
    private func afterLateInvite(to token: PushToken) -> AfterLateInvite {
        ledger.dispatcher.directory.afterLateInvite(to: token, settings.missedCalls.afterLateInvite)
    }

    // MARK: The phone is back

    /// Sends the phone the INVITE of each ended call that it was woken for. The CANCEL follows as soon as it may be
    /// sent (RFC 3261 section 9.1). The list of missed calls goes out immediately (R22), or waits for the phone's
    /// response.
    func sayFarewells(of calls: ShortList<EndedCall>, to device: DeviceID, now: Moment) {
        var isListDue: AddressOfRecord?
        for ended in calls where ended.until > now.instant {
            let reasons = ended.reasons[device] ?? []
            guard let target = registrar.bindings.forkTarget(device, now: now.instant),
                case .flow(let flow, _) = hop(to: target)
            else { continue }
            if let rings = ended.rings[device] {
                for client in rings { takeBack(client, by: flow, reasons: reasons, now: now) }
                continue
            }
            guard let listener = identity.listener(for: flow), let request = reread(ended.request),
                let client = transactions.makeClientTransaction()
            else { continue }
            let incoming = IncomingRequest(
                request, on: ended.source, isTrusted: isTrusted(ended.source))
            var edits = RequestEdits(
                requestURI: target.requestURI, via: via(for: client, listener: listener, incoming), maxForwards: 70)
            if CallerIdentity.wantsIDPrivacy(request.frame) { edits.removed = [.pAssertedIdentity] }
            edits.topViaAddition = incoming.viaAddition
            strip(&edits, of: incoming)
            log.info(
                "phone learns that a call is over",
                [
                    .aor: .described(ended.userCall.aor), .callID: .bytes(ended.userCall.key.callID),
                    .device: .described(device),
                ])
            let isQuestion = target.pushToken.map(afterLateInvite(to:)) == AfterLateInvite.none
            legs.start(
                client,
                Farewell(
                    ended.userCall, isQuestion: isQuestion, to: device, on: flow, from: listener, incoming))
            if !isQuestion {
                isListDue = ended.userCall.aor
            } else if let until = wakes.listWaits(for: device, answering: client, now: now.instant) {
                ledger.listDue(to: device, of: ended.userCall.aor, at: until)
            }
            let outgoing = request.forwarded(edits)
            withTransactions { table, out in
                table.start(client, request: outgoing, on: flow, now: now.instant, into: &out)
                table.cancel(client, reasons: reasons, now: now.instant, into: &out)
            }
        }
        if let isListDue { reportMissedCalls(to: device, of: isListDue, now: now) }
    }

    func farewellAnswered(
        _ farewell: Farewell, _ response: SIPResponse, of client: ClientTransactionID, now: Moment
    ) {
        let status = response.status
        if farewell.isQuestion, status.code >= 180, status != .requestTimeout, status != .serviceUnavailable {
            ledger.deviceReached(farewell.device, by: farewell.userCall, into: &actions)
        }
        if status.isSuccess { hangUp(farewell, response, now: now) }
        if status.isFinal { farewellEnded(client, now: now) }
    }

    /// The phone has responded, or the transaction failed. A list of missed calls that waited for the response is sent now.
    func farewellEnded(_ client: ClientTransactionID, now: Moment) {
        guard let farewell = legs.endFarewell(client), wakes.answered(farewell.device, farewell: client) else { return }
        reportMissedCalls(to: farewell.device, of: farewell.userCall.aor, now: now)
    }
}
