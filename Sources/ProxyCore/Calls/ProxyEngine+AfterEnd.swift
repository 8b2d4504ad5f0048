import Addressing
import Bytes
import PushDelivery
import Registration
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping

/// Phones that were woken for a call and come when it is over.
extension ProxyEngine {
    /// What the phone with that token gets of a call that is over.
    func afterEnd(of token: PushToken) -> AfterEnd {
        ledger.dispatcher.directory.afterEnd(of: token)
    }

    /// Whether the call is in the list of missed calls of the phone with that token when the phone has had its INVITE late.
    private func afterLateInvite(to token: PushToken) -> AfterLateInvite {
        ledger.dispatcher.directory.afterLateInvite(to: token, settings.missedCalls.afterLateInvite)
    }

    /// The call is over. What phones are to hear of it that were pushed and have not come is kept for a minute, within the
    /// bytes that may be held.
    func rememberEnded(_ call: Call, now: Moment) {
        guard let offer = call.offer, !call.request.isEmpty,
            calls.bytes + call.request.count <= settings.limits.heldBytes
        else { return }
        var reasons: [DeviceID: [ByteString]] = [:]
        var rings: [DeviceID: [ClientTransactionID]] = [:]
        for branch in call.fork.branches where branch.isEnded {
            guard let end = branch.end, end != .succeeded, let device = branch.addressee else { continue }
            let lost = branch.former.filter { transactions.wasLost($0) }
            if !lost.isEmpty {
                rings[device] = lost
            } else if branch.way != nil || !branch.wasPushed
                || registrar.bindings.pushToken(of: device).map({ afterEnd(of: $0) }) != .inviteCancel
            {
                continue
            }
            switch end {
            case .cancelled(let reason): reasons[device] = reason.fields(callerReasons: call.callerReasons)
            case .succeeded, .failed, .gaveUp, .silent: reasons[device] = []
            }
        }
        guard !reasons.isEmpty else { return }
        var request = call.request
        request.compact()
        if calls.ended.isEmpty { _ = timers.schedule(.endedCallDue, at: now.instant + Self.afterEndTime) }
        calls.ended.append(
            EndedCall(
                offer: offer, request: request, source: call.source, until: now.instant + Self.afterEndTime,
                reasons: reasons, rings: rings))
        for device in reasons.keys {
            if let target = registrar.bindings.forkTarget(device, now: now.instant) { watch(target) }
        }
    }

    private static let afterEndTime: Duration = .seconds(60)

    func endedCallDue(now: Moment) {
        while let end = calls.ended.nextEnd, end <= now.instant { dropOldestEnded() }
        if let end = calls.ended.nextEnd { _ = timers.schedule(.endedCallDue, at: end) }
    }

    /// Forgets calls that are over, the oldest first, until there is room for a request that is not.
    func makeRoom(for size: Int) {
        while calls.bytes + size > settings.limits.heldBytes, !calls.ended.isEmpty { dropOldestEnded() }
    }

    private func dropOldestEnded() {
        guard let idle = calls.ended.dropOldest() else { return }
        for device in idle where calls.devices.calls(of: device).isEmpty { calls.devices.unwatch(device) }
    }

    // MARK: The phone is back

    /// Sends it the INVITE of each call that it was woken for, and the CANCEL as soon as that may be sent (RFC 3261 section
    /// 9.1). Its list of missed calls goes at once (R22), or waits until it has answered.
    func sayFarewells(to device: DeviceID, now: Moment) {
        guard !calls.ended.isEmpty else { return }
        var isListDue: AddressOfRecord?
        for ended in calls.ended.take(for: device) where ended.until > now.instant {
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
                "phone hears of a call that is over",
                [
                    .aor: .described(ended.offer.aor), .callID: .bytes(ended.offer.key.callID),
                    .device: .described(device),
                ])
            let isQuestion = target.pushToken.map(afterLateInvite(to:)) == AfterLateInvite.none
            legs.start(
                client,
                Farewell(
                    ended.offer, isQuestion: isQuestion, to: device, on: flow, from: listener, incoming))
            if !isQuestion {
                isListDue = ended.offer.aor
            } else if let until = legs.asked.asked(device, by: client, now: now.instant) {
                ledger.listDue(to: device, of: ended.offer.aor, at: until)
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
            ledger.deviceReached(farewell.device, by: farewell.offer, into: &actions)
        }
        if status.isSuccess { hangUp(farewell, response, now: now) }
        if status.isFinal { farewellEnded(client, now: now) }
    }

    /// The phone has answered, or will not. Its list of missed calls may have waited until it said whether it knows of these.
    func farewellEnded(_ client: ClientTransactionID, now: Moment) {
        guard let farewell = legs.endFarewell(client), legs.asked.answered(farewell.device, by: client) else { return }
        reportMissedCalls(to: farewell.device, of: farewell.offer.aor, now: now)
    }

    /// A phone has answered a call that an operator has ended.
    func hangUp(_ branch: Int, of call: Call, _ answer: SIPResponse, now: Moment) {
        let answering = call.fork.branches[branch]
        guard let offer = call.offer, let device = answering.addressee, let flow = answering.flow,
            let listener = identity.listener(for: flow), let incoming = revive(call)
        else { return }
        hangUp(Farewell(offer, isQuestion: false, to: device, on: flow, from: listener, incoming), answer, now: now)
    }

    /// A phone that answers by itself was quicker than the CANCEL: nobody is there, so we acknowledge and end the call.
    private func hangUp(_ farewell: Farewell, _ answer: SIPResponse, now: Moment) {
        guard let ack = transactions.makeClientTransaction() else { return }
        act(.send(request(.ack, in: farewell, answer, as: ack), on: farewell.flow))
        transactions.discard(ack)
        guard let bye = transactions.makeClientTransaction() else { return }
        let bytes = request(.bye, in: farewell, answer, as: bye)
        let outgoing = OutgoingRequest(
            bytes: bytes, method: .bye, cseqNumber: farewell.invite.request.cseq.number &+ 1, requestURI: 0..<0,
            viaRow: 0..<0, fromRow: 0..<0, toRow: 0..<0, callIDRow: 0..<0, routeRows: [])
        withTransactions { $0.start(bye, request: outgoing, on: farewell.flow, now: now.instant, into: &$1) }
    }

    /// A request as the caller would send it in the dialog that the phone's 2xx made (RFC 3261 section 12.2.1.1).
    private func request(
        _ method: Method, in farewell: Farewell, _ answer: SIPResponse, as client: ClientTransactionID
    ) -> [UInt8] {
        let invite = farewell.invite.request
        var out: [UInt8] = []
        method.append(to: &out)
        out.append(" ")
        out.append(Self.remoteTarget(of: answer) ?? invite.uri.text)
        out.append(" SIP/2.0\r\nVia: ")
        out.append(via(for: client, listener: farewell.listener, farewell.invite))
        for route in Self.routesToPhone(answer, identity).reversed() {
            out.append("\r\nRoute: ")
            out.append(route)
        }
        out.append("\r\nFrom: ")
        out.append(invite.frame.firstValue(of: .from) ?? .empty)
        out.append("\r\nTo: ")
        out.append(answer.frame.firstValue(of: .to) ?? .empty)
        out.append("\r\nCall-ID: ")
        out.append(invite.callID)
        out.append("\r\nCSeq: ")
        out.append(decimal: method == .ack ? invite.cseq.number : invite.cseq.number &+ 1)
        out.append(" ")
        method.append(to: &out)
        out.append("\r\nMax-Forwards: 70\r\nContent-Length: 0\r\n\r\n")
        return out
    }

    /// The edges between us and the phone: what stands above our own Record-Route.
    private static func routesToPhone(_ answer: SIPResponse, _ identity: LocalIdentity) -> [ByteString] {
        Array(
            answer.frame.values(of: .recordRoute).prefix { value in
                NameAddress(value).map { !identity.isUs($0.uri) } ?? false
            })
    }

    /// The URI of its Contact.
    private static func remoteTarget(of answer: SIPResponse) -> ByteString? {
        guard let contact = answer.frame.firstValue(of: .contact) else { return nil }
        guard let start = contact.firstIndex(of: UInt8(ascii: "<")) else {
            return contact[0..<(contact.firstIndex(of: UInt8(ascii: ";")) ?? contact.count)]
        }
        let rest = contact[start + 1..<contact.count]
        return rest[0..<(rest.firstIndex(of: UInt8(ascii: ">")) ?? rest.count)]
    }
}
