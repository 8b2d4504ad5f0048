package import Addressing
package import Bytes
package import SIPGrammar
package import Timekeeping

extension TransactionTable {
    /// Reserves a transaction id, so that the Via can be written before the rest of the request; `nil` if the table is
    /// full.
    ///
    /// The core must start the transaction later, or release the id with ``discard(_:)``.
    package mutating func makeClientTransaction() -> ClientTransactionID? {
        guard clients.count < limits.clientTransactions else { return nil }
        return ClientTransactionID(rawValue: clients.records[clients.insert(ClientRecord())].id)
    }

    /// Releases a reserved transaction id whose transaction was not started. For a started transaction, ``discard(_:)``
    /// does nothing.
    package mutating func discard(_ id: ClientTransactionID) {
        guard let slot = clients.slot(of: id.rawValue), case .reserved = clients.records[slot].machine else { return }
        clients.remove(slot: slot)
    }

    /// Sends the request of a reserved client transaction. The topmost Via of the request must have the branch that
    /// ``BranchKey/appendBranch(for:loopHash:to:)`` writes for the id.
    ///
    /// For an id that was started or discarded before, ``start`` does nothing.
    ///
    /// - Precondition: the request is not an ACK, because an ACK has no transaction.
    package mutating func start(
        _ id: ClientTransactionID, request: OutgoingRequest, on flow: Flow, now: Instant,
        into out: inout [TransactionOutput]
    ) {
        precondition(request.method != .ack, "an ACK has no transaction")
        guard let slot = clients.slot(of: id.rawValue), case .reserved = clients.records[slot].machine else { return }
        start(slot, request, on: flow, now: now, into: &out)
    }

    /// How an INVITE from before a restart is resumed.
    package enum Resumption: Sendable {
        /// The INVITE is sent again, so that the phone sends its last response again.
        case sendingAgain
        /// The INVITE is not sent again, because its connection was closed; a response can come only on a new
        /// connection.
        case silent
        /// A 2xx has already arrived, and the phone may repeat the 2xx.
        case answered
    }

    /// Resumes an INVITE that was sent before the daemon restarted.
    ///
    /// - Parameters:
    ///   - request: the INVITE, with the topmost Via from before the restart.
    ///   - branch: the branch of the topmost Via.
    ///   - flow: the flow on which the phone is reached.
    ///   - resumption: how to resume the INVITE.
    ///   - now: the present time.
    ///   - out: receives the INVITE, if it is sent again.
    /// - Returns: the new transaction; `nil` if the table is full.
    package mutating func resume(
        _ request: OutgoingRequest, branch: ByteString, on flow: Flow, _ resumption: Resumption, now: Instant,
        into out: inout [TransactionOutput]
    ) -> ClientTransactionID? {
        guard let id = makeClientTransaction(), let slot = clients.slot(of: id.rawValue) else { return nil }
        inherited.add(branch, id)
        let isReliable = flow.transport.isReliable
        switch resumption {
        case .sendingAgain:
            start(slot, request, on: flow, now: now, into: &out)
            return id
        case .silent:
            clients.records[slot].machine = .invite(InviteClientTransaction(isReliable: isReliable))
            clients.records[slot].invite = SentInvite(request.cancellation(reasons: []))
        case .answered: clients.records[slot].machine = .invite(.accepted(isReliable: isReliable))
        }
        clients.records[slot].places = ClientPlaces(sentOn: flow)
        flows.insert(slot, on: flow, in: &clients.records)
        armWait(slot, at: timers.patience(from: now))
        return id
    }

    /// The transaction of a response, found by ``client(of:)``.
    package struct ClientMatch: Sendable {
        fileprivate let slot: Int
        /// The transaction of the request; for a response to the daemon's CANCEL, the transaction of the cancelled
        /// INVITE.
        package let client: ClientTransactionID
    }

    /// Finds the transaction of a response by the branch of its topmost Via and its CSeq method.
    package func client(of response: SIPResponse) -> ClientMatch? {
        guard let slot = slot(matching: response) else { return nil }
        let own = ClientTransactionID(rawValue: clients.records[slot].id)
        return ClientMatch(slot: slot, client: clients.records[slot].cancelledInvite ?? own)
    }

    /// The flow for further messages to the peer of a transaction.
    ///
    /// - Precondition: the table has not changed since the match was found.
    package func flow(of match: ClientMatch) -> Flow? { clients.records[match.slot].flow }

    /// Whether a response that arrived on the given flow is accepted, by the rules of ``ClientPlaces``.
    ///
    /// - Parameters:
    ///   - flow: the flow of the response.
    ///   - match: the transaction of the response, found while the table had its present state.
    ///   - sender: the sender of the response, evaluated only if the flow is unexpected.
    /// - Returns: whether the response is accepted.
    package func accepts(
        responseFrom flow: Flow, to match: ClientMatch, by sender: @autoclosure () -> ClientPlaces.Sender
    ) -> Bool {
        guard let places = clients.records[match.slot].places else { return false }
        // If the peer of an INVITE has moved, only the record of the INVITE has the new flow, and not the record of the
        // CANCEL.
        guard let invite = clients.records[match.slot].cancelledInvite, !places.includes(flow),
            let slot = clients.slot(of: invite.rawValue), let all = clients.records[slot].places
        else { return places.accepts(responseFrom: flow, by: sender()) }
        return all.accepts(responseFrom: flow, by: sender())
    }

    /// Notes that the connection of a request was closed; the transaction continues, because a response may come on a
    /// new connection.
    package mutating func connectionEnded(of id: ClientTransactionID) {
        guard let slot = clients.slot(of: id.rawValue) else { return }
        clients.records[slot].places?.connectionEnded()
    }

    /// Whether an INVITE was sent before a restart, or by another node, so that its branch is not this transaction's id.
    package func isInherited(_ id: ClientTransactionID) -> Bool { !inherited.isEmpty && inherited.has(id) }

    /// Sends the CANCEL of an INVITE again, because the connection of the first CANCEL has ended.
    package mutating func cancelAgain(
        _ id: ClientTransactionID, now: Instant, into out: inout [TransactionOutput]
    ) {
        guard let slot = clients.slot(of: id.rawValue), case .invite(let machine) = clients.records[slot].machine,
            machine.state == .cancelling
        else { return }
        sendCancel(slot, now: now, into: &out)
    }

    /// Whether the connection of the request was closed and the transaction still waits for a response.
    package func wasLost(_ id: ClientTransactionID) -> Bool {
        guard let slot = clients.slot(of: id.rawValue) else { return false }
        return clients.records[slot].places?.wasLost == true
    }

    /// Notes that the phone of a request gets a later request on another flow.
    package mutating func calledAnew(_ id: ClientTransactionID, by flow: Flow) {
        guard let slot = clients.slot(of: id.rawValue) else { return }
        clients.records[slot].places?.calledAnew(by: flow)
    }

    /// Handles a response, without checking who sent the response.
    package mutating func responseReceived(
        _ response: SIPResponse, now: Instant, into out: inout [TransactionOutput]
    ) {
        guard let match = client(of: response) else {
            out.append(.strayResponse)
            return
        }
        responseReceived(response, of: match, now: now, into: &out)
    }

    /// Handles a response, after the core has checked who sent the response.
    ///
    /// - Precondition: the table has not changed since the match was found.
    package mutating func responseReceived(
        _ response: SIPResponse, of match: ClientMatch, now: Instant, into out: inout [TransactionOutput]
    ) {
        let slot = match.slot
        switch clients.records[slot].machine {
        case .reserved: out.append(.strayResponse)
        case .invite(var machine):
            let action = machine.responseReceived(response.status, timers, now: now)
            clients.records[slot].machine = .invite(machine)
            perform(action, slot, response, now: now, into: &out)
        case .nonInvite(var machine):
            let action = machine.responseReceived(response.status, timers, now: now)
            clients.records[slot].machine = .nonInvite(machine)
            perform(action, slot, response, into: &out)
        }
    }

    /// Cancels an INVITE. If a provisional response has arrived, the CANCEL is sent immediately, otherwise after the
    /// first provisional response (RFC 3261 section 9.1).
    ///
    /// After the final response, for a request other than INVITE, and for an id that was not started, `cancel` does
    /// nothing. A cancelled INVITE times out if no final response arrives within 64*T1.
    ///
    /// - Parameters:
    ///   - id: the transaction of the INVITE.
    ///   - peerHasIt: whether the peer has the INVITE, although no response has arrived. The CANCEL is then sent
    ///     immediately.
    ///   - reasons: the values of Reason header fields (RFC 3326); if the INVITE is cancelled twice, the first values
    ///     are used.
    ///   - now: the present time.
    ///   - out: receives the CANCEL.
    package mutating func cancel(
        _ id: ClientTransactionID, peerHasIt: Bool = false, reasons: [ByteString], now: Instant,
        into out: inout [TransactionOutput]
    ) {
        guard let slot = clients.slot(of: id.rawValue), case .invite(var machine) = clients.records[slot].machine,
            let invite = clients.records[slot].invite
        else { return }
        let action = machine.cancelRequested(peerHasIt: peerHasIt, timers, now: now)
        clients.records[slot].machine = .invite(machine)
        guard action != .none else { return }
        clients.records[slot].invite = SentInvite(invite.request, reasons: reasons.map { $0.compacted() })
        perform(action, slot, nil, now: now, into: &out)
    }

    /// Stops the retransmissions of an INVITE without a response. If a response to a given-up INVITE still arrives, the
    /// INVITE is cancelled.
    package mutating func giveUp(_ id: ClientTransactionID, now: Instant, into out: inout [TransactionOutput]) {
        cancel(id, reasons: [], now: now, into: &out)
        if let slot = clients.slot(of: id.rawValue) { deadlines.cancel(clients.records[slot].resend) }
    }

    /// Handles the failure to send a request.
    package mutating func transportFailed(
        _ id: ClientTransactionID, now: Instant, into out: inout [TransactionOutput]
    ) {
        guard let slot = clients.slot(of: id.rawValue) else { return }
        transportFailed(slot, now: now, into: &out)
    }

    /// The active client transactions whose further messages are sent on the flow.
    package func clients(on flow: Flow) -> [ClientTransactionID] {
        flows.slots(on: flow, in: clients.records).map { ClientTransactionID(rawValue: clients.records[$0].id) }
    }

    /// Moves an INVITE to another flow of the same transport, because its peer has moved. Later messages of the
    /// transaction are sent on the new flow. A CANCEL that was sent before is sent again on the new flow.
    package mutating func move(
        _ id: ClientTransactionID, to flow: Flow, now: Instant, into out: inout [TransactionOutput]
    ) {
        guard let slot = clients.slot(of: id.rawValue), let old = clients.records[slot].flow, old != flow,
            old.transport == flow.transport, case .invite(let machine) = clients.records[slot].machine
        else { return }
        flows.remove(slot, on: old, in: &clients.records)
        clients.records[slot].places?.moved(to: flow)
        flows.insert(slot, on: flow, in: &clients.records)
        if machine.state == .cancelling { sendCancel(slot, now: now, into: &out) }
    }

    /// Handles the return of an unreachable peer. If a request to the returned peer has no response yet, the request is
    /// sent again immediately.
    package mutating func peerReturned(
        _ id: ClientTransactionID, now: Instant, into out: inout [TransactionOutput]
    ) {
        guard let slot = clients.slot(of: id.rawValue) else { return }
        switch clients.records[slot].machine {
        case .reserved: break
        case .invite(var machine):
            let action = machine.peerReturned(timers, now: now)
            clients.records[slot].machine = .invite(machine)
            perform(action, slot, nil, now: now, into: &out)
        case .nonInvite(var machine):
            let action = machine.peerReturned(timers, now: now)
            clients.records[slot].machine = .nonInvite(machine)
            perform(action, slot, nil, into: &out)
        }
    }

    // MARK: Events from the table's own queue

    mutating func clientResendDue(_ slot: Int, now: Instant, into out: inout [TransactionOutput]) {
        switch clients.records[slot].machine {
        case .reserved: break
        case .invite(var machine):
            let action = machine.resendDue(timers, now: now)
            clients.records[slot].machine = .invite(machine)
            perform(action, slot, nil, now: now, into: &out)
        case .nonInvite(var machine):
            let action = machine.resendDue(timers, now: now)
            clients.records[slot].machine = .nonInvite(machine)
            perform(action, slot, nil, into: &out)
        }
    }

    mutating func clientWaitEnded(_ slot: Int, now: Instant, into out: inout [TransactionOutput]) {
        switch clients.records[slot].machine {
        case .reserved: break
        case .invite(var machine):
            let action = machine.waitEnded()
            clients.records[slot].machine = .invite(machine)
            perform(action, slot, nil, now: now, into: &out)
        case .nonInvite(var machine):
            let action = machine.waitEnded()
            clients.records[slot].machine = .nonInvite(machine)
            perform(action, slot, nil, into: &out)
        }
    }

    private mutating func transportFailed(_ slot: Int, now: Instant, into out: inout [TransactionOutput]) {
        switch clients.records[slot].machine {
        case .reserved: break
        case .invite(var machine):
            let action = machine.transportFailed()
            clients.records[slot].machine = .invite(machine)
            perform(action, slot, nil, now: now, into: &out)
        case .nonInvite(var machine):
            let action = machine.transportFailed()
            clients.records[slot].machine = .nonInvite(machine)
            perform(action, slot, nil, into: &out)
        }
    }

    // MARK: Matching and starting

    private func slot(matching response: SIPResponse) -> Int? {
        guard let text = response.via.branch,
            var id = ViaBranch(text, branchKey)?.id ?? (inherited.isEmpty ? nil : inherited[text])
        else { return nil }
        if case .cancel = response.cseq.method, let own = cancellations[id] { id = own }
        guard let slot = clients.slot(of: id.rawValue), clients.records[slot].method == response.cseq.method else {
            return nil
        }
        return slot
    }

    private mutating func start(
        _ slot: Int, _ request: OutgoingRequest, on flow: Flow, now: Instant, into out: inout [TransactionOutput]
    ) {
        let isReliable = flow.transport.isReliable
        clients.records[slot].places = ClientPlaces(sentOn: flow)
        clients.records[slot].bytes = request.bytes
        flows.insert(slot, on: flow, in: &clients.records)
        if case .invite = request.method {
            let machine = InviteClientTransaction(isReliable: isReliable)
            clients.records[slot].machine = .invite(machine)
            clients.records[slot].invite = SentInvite(request)
            perform(machine.started(timers, now: now), slot, nil, now: now, into: &out)
        } else {
            let machine = NonInviteClientTransaction(isReliable: isReliable)
            clients.records[slot].machine = .nonInvite(machine)
            clients.records[slot].method = request.method.compacted()
            perform(machine.started(timers, now: now), slot, nil, into: &out)
        }
    }

    // MARK: Actions

    private mutating func perform(
        _ action: InviteClientTransaction.Action, _ slot: Int, _ response: SIPResponse?, now: Instant,
        into out: inout [TransactionOutput]
    ) {
        switch action {
        case .none, .holdCancel: break
        case .sendRequest(let again, let until): sendRequest(slot, again: again, until: until, into: &out)
        case .sendAgain(let next): sendAgain(slot, next: next, into: &out)
        case .tell: tell(response, slot, into: &out)
        case .tellProvisional(let until):
            stopCalling(slot)
            armWait(slot, at: until)
            tell(response, slot, into: &out)
        case .tellRinging(let until):
            armWait(slot, at: until)
            tell(response, slot, into: &out)
        case .tellRangTooLong: out.append(.clientRangTooLong(ClientTransactionID(rawValue: clients.records[slot].id)))
        case .tellProvisionalAndCancel(let until):
            stopCalling(slot)
            tell(response, slot, into: &out)
            armWait(slot, at: until)
            sendCancel(slot, now: now, into: &out)
        case .tellSuccess(let until):
            rest(slot, answeringWith: [], until: until)
            tell(response, slot, into: &out)
        case .acknowledgeAndTell(let until):
            rest(slot, answeringWith: acknowledgement(of: response, slot), until: until)
            sendRequest(clients.records[slot].bytes, slot, into: &out)
            tell(response, slot, into: &out)
        case .acknowledgeTellAndEnd:
            sendRequest(acknowledgement(of: response, slot), slot, into: &out)
            tell(response, slot, into: &out)
            end(slot, into: &out)
        case .acknowledgeAgain: sendRequest(clients.records[slot].bytes, slot, into: &out)
        case .sendCancel(let until):
            armWait(slot, at: until)
            sendCancel(slot, now: now, into: &out)
        case .end: end(slot, into: &out)
        case .endTimedOut: endTimedOut(slot, into: &out)
        case .endFailed: endFailed(slot, into: &out)
        }
    }

    private mutating func perform(
        _ action: NonInviteClientTransaction.Action, _ slot: Int, _ response: SIPResponse?,
        into out: inout [TransactionOutput]
    ) {
        switch action {
        case .none: break
        case .sendRequest(let again, let until): sendRequest(slot, again: again, until: until, into: &out)
        case .sendAgain(let next): sendAgain(slot, next: next, into: &out)
        case .tell: tell(response, slot, into: &out)
        case .tellFinal(let until):
            rest(slot, answeringWith: [], until: until)
            tell(response, slot, into: &out)
        case .tellFinalAndEnd:
            tell(response, slot, into: &out)
            end(slot, into: &out)
        case .end: end(slot, into: &out)
        case .endTimedOut: endTimedOut(slot, into: &out)
        case .endFailed: endFailed(slot, into: &out)
        }
    }

    private mutating func sendRequest(
        _ slot: Int, again: Instant?, until: Instant, into out: inout [TransactionOutput]
    ) {
        armWait(slot, at: until)
        sendRequest(clients.records[slot].bytes, slot, into: &out)
        if let again { armResend(slot, at: again) } else { clients.records[slot].bytes = [] }
    }

    private mutating func sendAgain(_ slot: Int, next: Instant, into out: inout [TransactionOutput]) {
        armResend(slot, at: next)
        sendRequest(clients.records[slot].bytes, slot, into: &out)
    }

    /// Stops sending the INVITE again, and keeps only the parts that ACK and CANCEL need.
    private mutating func stopCalling(_ slot: Int) {
        deadlines.cancel(clients.records[slot].resend)
        clients.records[slot].bytes = []
        guard let invite = clients.records[slot].invite else { return }
        let essence = invite.request.cancellation(reasons: [])
        clients.records[slot].invite = SentInvite(essence, reasons: invite.reasons)
    }

    /// Drops the stored request after its final response. If retransmissions of the final response need an ACK, `bytes`
    /// contains the ACK.
    private mutating func rest(_ slot: Int, answeringWith bytes: [UInt8], until: Instant) {
        deadlines.cancel(clients.records[slot].resend)
        clients.records[slot].bytes = bytes
        clients.records[slot].invite = nil
        armWait(slot, at: TransactionTimers.shared(until))
    }

    private mutating func acknowledgement(of response: SIPResponse?, _ slot: Int) -> [UInt8] {
        guard let invite = clients.records[slot].invite, let to = response?.frame.firstValue(of: .to) else { return [] }
        return invite.request.acknowledgement(to: to)
    }

    private mutating func sendCancel(_ slot: Int, now: Instant, into out: inout [TransactionOutput]) {
        guard let invite = clients.records[slot].invite, let flow = clients.records[slot].flow else { return }
        let id = ClientTransactionID(rawValue: clients.records[slot].id)
        let own = clients.insert(ClientRecord(cancelling: id))
        cancellations[id] = ClientTransactionID(rawValue: clients.records[own].id)
        start(own, invite.request.cancellation(reasons: invite.reasons), on: flow, now: now, into: &out)
    }

    private mutating func sendRequest(_ bytes: [UInt8], _ slot: Int, into out: inout [TransactionOutput]) {
        guard !bytes.isEmpty, let flow = clients.records[slot].flow else { return }
        out.append(.send(bytes, on: flow))
    }

    private mutating func tell(_ response: SIPResponse?, _ slot: Int, into out: inout [TransactionOutput]) {
        guard let response, clients.records[slot].cancelledInvite == nil else { return }
        out.append(.responseReceived(ClientTransactionID(rawValue: clients.records[slot].id), response))
    }

    private mutating func endTimedOut(_ slot: Int, into out: inout [TransactionOutput]) {
        if clients.records[slot].cancelledInvite == nil {
            out.append(.clientTimedOut(ClientTransactionID(rawValue: clients.records[slot].id)))
        }
        end(slot, into: &out)
    }

    private mutating func endFailed(_ slot: Int, into out: inout [TransactionOutput]) {
        if clients.records[slot].cancelledInvite == nil {
            out.append(.clientTransportFailed(ClientTransactionID(rawValue: clients.records[slot].id)))
        }
        end(slot, into: &out)
    }

    private mutating func end(_ slot: Int, into out: inout [TransactionOutput]) {
        deadlines.cancel(clients.records[slot].resend)
        deadlines.cancel(clients.records[slot].wait)
        if let flow = clients.records[slot].flow { flows.remove(slot, on: flow, in: &clients.records) }
        if !inherited.isEmpty { inherited.remove(ClientTransactionID(rawValue: clients.records[slot].id)) }
        if let invite = clients.records[slot].cancelledInvite {
            // The entry in `cancellations` may belong to a later CANCEL of the same INVITE.
            if cancellations[invite]?.rawValue == clients.records[slot].id { cancellations[invite] = nil }
        } else {
            out.append(.clientEnded(ClientTransactionID(rawValue: clients.records[slot].id)))
        }
        clients.remove(slot: slot)
    }

    private mutating func armResend(_ slot: Int, at instant: Instant) {
        deadlines.cancel(clients.records[slot].resend)
        clients.records[slot].resend = deadlines.schedule(TransactionDeadline(.clientResend, slot: slot), at: instant)
    }

    private mutating func armWait(_ slot: Int, at instant: Instant) {
        deadlines.cancel(clients.records[slot].wait)
        clients.records[slot].wait = deadlines.schedule(TransactionDeadline(.clientWait, slot: slot), at: instant)
    }
}

extension Method {
    /// A copy of the method that keeps no reference to its message.
    fileprivate func compacted() -> Method {
        if case .other(let name) = self { .other(name.compacted()) } else { self }
    }
}
