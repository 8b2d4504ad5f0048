import AccessLimits
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
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping
import Waking

/// Remembers ended calls for phones that got a push for them and have not registered yet.
extension ProxyEngine {
    /// How the app that owns the push token is notified of a call's end, according to the setting `after-end`.
    func afterEnd(of token: PushToken) -> AfterEnd {
        ledger.dispatcher.directory.afterEnd(of: token)
    }

    /// Keeps an ended call for one minute, for phones that got a push and have not registered, and for phones whose
    /// CANCEL was lost. The bytes of ended calls that wait for phones count toward `limits.held-bytes`.
    func rememberEnded(_ call: ProxiedRequest, now: Moment) {
        guard let userCall = call.userCall, !call.request.isEmpty,
            calls.bytes + call.request.count <= settings.limits.heldBytes
        else { return }
        var reasons: [DeviceID: [ByteString]] = [:]
        var rings: [DeviceID: [ClientTransactionID]] = [:]
        for branch in call.fork.branches where branch.isEnded {
            guard let end = branch.end, end != .succeeded, let device = branch.addressee else { continue }
            let lost = branch.former.filter { sip.transactions.wasLost($0) }
            if !lost.isEmpty {
                rings[device] = lost
            } else if branch.routeHash != nil || !branch.wasPushed
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
        if calls.ended.isEmpty { _ = output.timers.schedule(.endedCallDue, at: now.instant + Self.afterEndTime) }
        let ended = EndedCall(
            userCall: userCall, request: request, source: call.source, until: now.instant + Self.afterEndTime,
            reasons: reasons, rings: rings)
        calls.keeps(ended)
        wakes.waits(ended)
        for device in reasons.keys {
            if let target = registrar.bindings.forkTarget(device, now: now.instant) { watch(target) }
        }
    }

    static let afterEndTime: Duration = .seconds(60)

    func endedCallDue(now: Moment) {
        while let end = calls.ended.nextEnd, end <= now.instant { dropOldestEnded() }
        if let end = calls.ended.nextEnd { _ = output.timers.schedule(.endedCallDue, at: end) }
    }

    func dropOldestEnded() {
        if let ended = calls.dropOldestEnded() { wakes.noLongerWaits(ended) }
    }

    /// Ends a call's wait for a phone, and sends the phone a push about the call's end if its app has the setting
    /// `after-end: push`.
    ///
    /// The phone gets a push instead of a CANCEL, because the phone has not received the INVITE. The daemon sends the
    /// push about the end only after the provider has accepted the push about the call. Before that, the phone does not
    /// know the call.
    func stoppedWaiting(_ index: Int, of call: ProxiedRequest, now: Moment) {
        let branch = call.fork.branches[index]
        let end = branch.wasWoken || branch.push != nil ? end(of: call, for: branch, now: now) : nil
        ledger.drop(index, of: call, owing: branch.wasWoken ? nil : end, now: now, into: &output.actions)
        if branch.wasWoken, let end, let device = branch.device, let aor = call.userCall?.aor {
            tell(end, to: device, of: aor, now: now)
        }
    }

    /// The content of the push that tells a phone that a call has ended; `nil` if the phone gets no such push.
    func end(of call: ProxiedRequest, for branch: ForkBranch, now: Moment) -> EndedCallNotice? {
        guard branch.end != .succeeded, let userCall = call.userCall, let device = branch.device,
            let token = registrar.bindings.pushToken(of: device), afterEnd(of: token) == .push
        else { return nil }
        var outcome = EndedCallNotice.Outcome.missed
        switch branch.end {
        case .cancelled(.answeredElsewhere): outcome = .answeredElsewhere
        case .cancelled(.declinedElsewhere): outcome = .declinedElsewhere
        case .cancelled, .gaveUp, .failed, .silent, .succeeded, nil: break
        }
        // If a phone without a registered push token answered or declined the call, no push is sent. This phone may be
        // the present device itself, because apps can report push tokens over HTTP.
        guard outcome == .missed || wasTakenByKnownDevice(call.fork) else { return nil }
        guard let incoming = revive(call) else { return nil }
        let caller = CallerIdentity(incoming.request, format: settings.call.callerIDFormat)
        return EndedCallNotice(IncomingCall(userCall, from: caller), outcome)
    }

    /// Sends the phone a push about the end of a call, if the phone still has a push token.
    func tell(_ end: EndedCallNotice, to device: DeviceID, of aor: AddressOfRecord, now: Moment) {
        guard let target = registrar.bindings.forkTarget(device, now: now.instant), let token = target.pushToken else {
            return
        }
        let notification = PushNotification(end, expiresAt: now.date + Self.shortestTry)
        let badge = ledger.unread.count(of: device)
        let code = ledger.newCode()
        let request = request(notification, code, to: token, of: target, badge: badge, now: now)
        let push = AskedPush(.notification, code, device: device, aor: aor, record: nil)
        ledger.send(push, request, now: now, into: &output.actions)
    }

    /// Whether the call was answered, or declined for all phones, by a phone that registers with a push token.
    func wasTakenByKnownDevice(_ fork: Fork) -> Bool {
        fork.branches.allSatisfy { branch in
            switch branch.end {
            case .succeeded: break
            case .failed(let status) where status.statusClass == 6: break
            case .failed, .gaveUp, .silent, .cancelled, nil: return true
            }
            return branch.contact == nil && branch.device.flatMap { registrar.bindings.pushToken(of: $0) } != nil
        }
    }
}

/// Notifies phones that got a push for a call and register only after the call's end.
extension ProxyEngine {

    /// Whether a missed call stays in the list of missed calls if the phone gets the INVITE only after the call's end.
    /// The setting `missed-calls.after-late-invite` or the token's app decides.
    private func afterLateInvite(to token: PushToken) -> AfterLateInvite {
        ledger.dispatcher.directory.afterLateInvite(to: token, settings.missedCalls.afterLateInvite)
    }

    // MARK: The phone is back

    /// Sends the phone an INVITE and a CANCEL for each ended call for which the phone got a push.
    ///
    /// The CANCEL follows the INVITE as soon as RFC 3261 section 9.1 allows. The push with the list of missed calls is
    /// sent immediately (R22), or waits for the phone's response to the INVITE.
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
                let client = sip.makeClientTransaction()
            else { continue }
            let incoming = IncomingRequest(
                request, on: ended.source, isTrusted: isTrusted(ended.source))
            var edits = RequestEdits(
                requestURI: target.requestURI, via: via(for: client, listener: listener, incoming), maxForwards: 70)
            if CallerIdentity.wantsIDPrivacy(request.frame) { edits.removed = [.pAssertedIdentity] }
            edits.topViaAddition = incoming.viaAddition
            edits.strip(
                incoming, settings.stripped, realms: access.digest.realmTexts,
                takesTokens: !settings.bearer.issuers.isEmpty)
            log.info(
                "a phone registered after its call had ended, so the daemon sends the phone INVITE and CANCEL to end the call on its screen",
                [
                    .aor: .described(ended.userCall.aor), .callID: .bytes(ended.userCall.key.callID),
                    .device: .described(device),
                ])
            let isQuestion = target.pushToken.map(afterLateInvite(to:)) == AfterLateInvite.none
            sip.legs.start(
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
            ledger.deviceReached(farewell.device, by: farewell.userCall, into: &output.actions)
        }
        if status.isFinal { farewellEnded(client, now: now) }
        if status.isSuccess {
            let answered = AnsweredINVITE(
                farewell.invite, to: farewell.userCall.aor, on: farewell.flow, from: farewell.listener)
            sip.legs.start(client, answered)
            hangUp(answered, response, now: now)
        }
    }

    /// Handles the end of an INVITE that was sent after the end of its call: the phone now gets its list of missed
    /// calls.
    func farewellEnded(_ client: ClientTransactionID, now: Moment) {
        guard let farewell = sip.legs.endFarewell(client), wakes.answered(farewell.device, farewell: client) else {
            return
        }
        reportMissedCalls(to: farewell.device, of: farewell.userCall.aor, now: now)
    }
}

/// Sends ACK and BYE to a phone that answers after the caller has left, so that the dialog ends (RFC 3261 sections
/// 13.2.2.4 and 12.2.1.1).
extension ProxyEngine {
    /// Sends ACK and BYE to a phone, or to the destination of a forwarded call, that answered after an operator had
    /// ended the call.
    func hangUp(
        _ branch: Int, of call: ProxiedRequest, by client: ClientTransactionID?, _ answer: SIPResponse, now: Moment
    ) {
        guard let flow = call.fork.branches[branch].flow, let listener = identity.listener(for: flow),
            let callee = call.userCall?.aor, let incoming = revive(call)
        else { return }
        let answered = AnsweredINVITE(incoming, to: callee, on: flow, from: listener)
        if let client { sip.legs.start(client, answered) }
        hangUp(answered, answer, now: now)
    }

    /// Sends ACK and BYE for a 2xx that the phone sent before the CANCEL reached the phone, because no caller is left.
    ///
    /// A repeated 2xx gets only an ACK, because the earlier ACK was lost.
    func hangUp(_ answered: AnsweredINVITE, _ answer: SIPResponse, now: Moment) {
        guard let ack = sip.makeClientTransaction() else { return }
        act(.send(request(.ack, in: answered, answer, as: ack), on: answered.flow))
        sip.discard(ack)
        guard answered.isNew(answer.to.tag ?? .empty), let bye = sip.makeClientTransaction() else {
            return
        }
        let bytes = request(.bye, in: answered, answer, as: bye)
        let outgoing = OutgoingRequest(
            bytes: bytes, method: .bye, cseqNumber: answered.invite.request.cseq.number &+ 1, requestURI: 0..<0,
            viaRow: 0..<0, fromRow: 0..<0, toRow: 0..<0, callIDRow: 0..<0, routeRows: [])
        withTransactions { $0.start(bye, request: outgoing, on: answered.flow, now: now.instant, into: &$1) }
    }

    /// Writes an ACK or BYE in the name of the caller, for the dialog that the 2xx created (RFC 3261 section 12.2.1.1).
    func request(
        _ method: Method, in answered: AnsweredINVITE, _ answer: SIPResponse, as client: ClientTransactionID
    ) -> [UInt8] {
        let invite = answered.invite.request
        var out: [UInt8] = []
        method.append(to: &out)
        out.append(" ")
        out.append(Self.remoteTarget(of: answer) ?? invite.uri.text)
        out.append(" SIP/2.0\r\nVia: ")
        out.append(via(for: client, listener: answered.listener, answered.invite))
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

    /// The Record-Route values of the edges between this proxy and the phone: all values before the proxy's own value.
    static func routesToPhone(_ answer: SIPResponse, _ identity: LocalIdentity) -> [ByteString] {
        Array(
            answer.frame.values(of: .recordRoute).prefix { value in
                NameAddress(value).map { !identity.isUs($0.uri) } ?? false
            })
    }

    /// The URI in the Contact of a response.
    static func remoteTarget(of answer: SIPResponse) -> ByteString? {
        guard let contact = answer.frame.firstValue(of: .contact) else { return nil }
        guard let start = contact.firstIndex(of: UInt8(ascii: "<")) else {
            return contact[0..<(contact.firstIndex(of: UInt8(ascii: ";")) ?? contact.count)]
        }
        let rest = contact[start + 1..<contact.count]
        return rest[0..<(rest.firstIndex(of: UInt8(ascii: ">")) ?? rest.count)]
    }
}
