package import Addressing
import Collections
package import SIPGrammar
package import Timekeeping

extension TransactionTable {
    /// Finds the transaction to which a received request belongs (RFC 3261 section 17.2.3). If the request is a
    /// retransmission, the stored response is appended to `out`.
    ///
    /// - Parameters:
    ///   - request: the received request.
    ///   - flow: the flow for responses if a new request gets its transaction immediately; `nil` if
    ///     ``begin(_:for:cancelling:respondOn:now:)`` may create the transaction later.
    ///   - now: the present time.
    ///   - out: gets the outputs.
    /// - Returns: the match; for a new request, also its transaction if the transaction has begun.
    package mutating func requestReceived(
        _ request: SIPRequest, beginningOn flow: Flow? = nil, now: Instant, into out: inout [TransactionOutput]
    ) -> RequestMatch {
        if case .ack = request.method { return acknowledgementReceived(request, now: now, into: &out) }
        let key = TransactionKey(request, as: request.method)
        if let slot = serverSlot(of: key) { return requestRepeated(slot, into: &out) }
        guard case .cancel = request.method else {
            return .new(key, flow.flatMap { begin(key, for: request, respondOn: $0, now: now) })
        }
        let invite = serverSlot(of: TransactionKey(request, as: .invite))
        return .cancel(key, of: invite.map { ServerTransactionID(rawValue: servers.records[$0].id) })
    }

    /// Creates the transaction of a new request. The transaction table does not store the request itself.
    ///
    /// - Parameters:
    ///   - key: the key that ``requestReceived(_:beginningOn:now:into:)`` returned for the request.
    ///   - request: the received request.
    ///   - cancelled: the INVITE that a CANCEL cancels. A full table accepts the CANCEL of an INVITE in the table, and
    ///     up to ``TransactionLimits/keptForByes`` BYEs above the limit.
    ///   - flow: the flow on which responses are sent.
    ///   - now: the present time.
    /// - Returns: the id; `nil` if the table is full, so that the core answers 503 without a transaction.
    package mutating func begin(
        _ key: TransactionKey, for request: SIPRequest, cancelling cancelled: ServerTransactionID? = nil,
        respondOn flow: Flow, now: Instant
    ) -> ServerTransactionID? {
        let kept = request.method == .bye ? limits.keptForByes : 0
        guard cancelled != nil || servers.count < limits.serverTransactions + kept else { return nil }
        let isReliable = flow.transport.isReliable
        let slot: Int
        if case .invite = request.method {
            let machine = InviteServerTransaction(isReliable: isReliable)
            slot = servers.insert(ServerRecord(key: key, flow: flow, machine: .invite(machine)))
        } else {
            let machine = NonInviteServerTransaction(isReliable: isReliable, now: now)
            slot = servers.insert(ServerRecord(key: key, flow: flow, machine: .nonInvite(machine)))
            servers.records[slot].wait = deadlines.schedule(
                TransactionDeadline(.serverWait, slot: slot), at: machine.patienceEnd(timers))
        }
        serverIndex.insert(hash: key.hash, slot: UInt32(slot))
        return ServerTransactionID(rawValue: servers.records[slot].id)
    }

    /// Sends a response from the core, unless the transaction must delay or drop the response.
    ///
    /// A 100 to a request other than INVITE is sent only after 3.5 s, and other provisional responses to it are
    /// dropped. A 408 to a request other than INVITE is dropped, and only ends the wait for a response (RFC 4320).
    /// After a final response, only further 2xx to an INVITE are sent (RFC 6026). A transaction that has ended sends
    /// nothing.
    ///
    /// With empty `bytes`, ``TransactionOutput/provisionalDue(_:)`` tells the core later when a delayed 100 must be
    /// written.
    package mutating func respond(
        _ id: ServerTransactionID, status: Status, bytes: [UInt8], now: Instant, into out: inout [TransactionOutput]
    ) {
        guard let slot = servers.slot(of: id.rawValue) else { return }
        switch servers.records[slot].machine {
        case .invite(var machine):
            let action = machine.respond(status, timers, now: now)
            servers.records[slot].machine = .invite(machine)
            perform(action, slot, bytes, into: &out)
        case .nonInvite(var machine):
            let action = machine.respond(status, timers, now: now)
            servers.records[slot].machine = .nonInvite(machine)
            perform(action, slot, bytes, into: &out)
        }
    }

    // MARK: Transactions of the daemon's earlier run

    /// Resumes the server transaction of an INVITE from before the restart; the INVITE's caller has got at least a 100.
    ///
    /// - Returns: the id; `nil` if the table is full or already has the transaction.
    package mutating func resume(_ request: SIPRequest, respondOn flow: Flow, now: Instant) -> ServerTransactionID? {
        let key = TransactionKey(request, as: .invite)
        guard serverSlot(of: key) == nil,
            let id = begin(key, for: request, respondOn: flow, now: now), let slot = servers.slot(of: id.rawValue),
            case .invite(var machine) = servers.records[slot].machine
        else { return nil }
        _ = machine.respond(.trying, timers, now: now)
        servers.records[slot].machine = .invite(machine)
        return id
    }

    /// Changes the flow for responses to an INVITE, because the INVITE's sender is now reached on a different flow. The
    /// last response is sent again on the new flow, because it may have been lost.
    package mutating func move(_ id: ServerTransactionID, to flow: Flow, into out: inout [TransactionOutput]) {
        guard let slot = servers.slot(of: id.rawValue), servers.records[slot].flow != flow else { return }
        servers.records[slot].flow = flow
        sendResponse(servers.records[slot].response, slot, into: &out)
    }

    /// The transaction of an INVITE, or of the INVITE that a CANCEL names.
    package func server(of invite: SIPRequest) -> ServerTransactionID? {
        let slot = serverSlot(of: TransactionKey(invite, as: .invite))
        return slot.map { ServerTransactionID(rawValue: servers.records[$0].id) }
    }

    /// Changes the flow for responses to an INVITE that is repeated or cancelled, because its sender has another flow
    /// now.
    ///
    /// - Returns: the transaction of the INVITE; `nil` if the INVITE is new, or if the flow is the same.
    package mutating func redirect(_ invite: SIPRequest, to flow: Flow) -> ServerTransactionID? {
        guard let slot = serverSlot(of: TransactionKey(invite, as: .invite)), servers.records[slot].flow != flow else {
            return nil
        }
        servers.records[slot].flow = flow
        return ServerTransactionID(rawValue: servers.records[slot].id)
    }

    /// Ends a server transaction without a response, because another node of the cluster answers the request.
    package mutating func abandon(_ id: ServerTransactionID, into out: inout [TransactionOutput]) {
        if let slot = servers.slot(of: id.rawValue) { end(slot, into: &out) }
    }

    // MARK: Events from the table's own queues

    mutating func serverResendDue(_ slot: Int, now: Instant, into out: inout [TransactionOutput]) {
        switch servers.records[slot].machine {
        case .invite(var machine):
            let action = machine.resendDue(timers, now: now)
            servers.records[slot].machine = .invite(machine)
            perform(action, slot, [], into: &out)
        case .nonInvite where servers.records[slot].response.isEmpty:
            out.append(.provisionalDue(ServerTransactionID(rawValue: servers.records[slot].id)))
        case .nonInvite(var machine):
            let action = machine.provisionalDue()
            servers.records[slot].machine = .nonInvite(machine)
            perform(action, slot, servers.records[slot].response, into: &out)
        }
    }

    mutating func serverWaitEnded(_ slot: Int, into out: inout [TransactionOutput]) {
        switch servers.records[slot].machine {
        case .invite(var machine):
            let action = machine.waitEnded()
            servers.records[slot].machine = .invite(machine)
            perform(action, slot, [], into: &out)
        case .nonInvite(var machine):
            let action = machine.waitEnded()
            servers.records[slot].machine = .nonInvite(machine)
            perform(action, slot, [], into: &out)
        }
    }

    /// Ends the server transaction that was completed first, because its timer J has fired or too many completed
    /// transactions exist.
    mutating func dropOldestCompleted(into out: inout [TransactionOutput]) {
        guard let first = completed.popFirst(), let slot = servers.slot(of: first.id.rawValue) else { return }
        serverWaitEnded(slot, into: &out)
    }

    // MARK: Matching

    private func serverSlot(of key: TransactionKey) -> Int? {
        serverIndex.find(hash: key.hash) { servers.records[Int($0)].key == key }.map { Int($0) }
    }

    private mutating func requestRepeated(_ slot: Int, into out: inout [TransactionOutput]) -> RequestMatch {
        switch servers.records[slot].machine {
        case .invite(let machine):
            let action = machine.requestRepeated()
            if action == .repeatTrying { return .unanswered(ServerTransactionID(rawValue: servers.records[slot].id)) }
            perform(action, slot, [], into: &out)
        case .nonInvite(let machine): perform(machine.requestRepeated(), slot, [], into: &out)
        }
        return .absorbed
    }

    private mutating func acknowledgementReceived(
        _ request: SIPRequest, now: Instant, into out: inout [TransactionOutput]
    ) -> RequestMatch {
        let key = TransactionKey(request, as: .invite)
        guard let slot = serverSlot(of: key),
            case .invite(var machine) = servers.records[slot].machine
        else { return .endToEndACK }
        if case .accepted = machine.state { return .endToEndACK }
        let action = machine.acknowledged(timers, now: now)
        servers.records[slot].machine = .invite(machine)
        let id = ServerTransactionID(rawValue: servers.records[slot].id)
        perform(action, slot, [], into: &out)
        return .acknowledged(id)
    }

    // MARK: Actions

    private mutating func perform(
        _ action: InviteServerTransaction.Action, _ slot: Int, _ bytes: [UInt8], into out: inout [TransactionOutput]
    ) {
        switch action {
        case .none, .repeatTrying: break
        case .sendProvisional:
            keep(bytes, slot)
            sendResponse(bytes, slot, into: &out)
        case .sendTrying, .sendSuccess: sendResponse(bytes, slot, into: &out)
        case .sendFirstSuccess(let until):
            servers.records[slot].response = []
            armWait(slot, at: TransactionTimers.shared(until))
            sendResponse(bytes, slot, into: &out)
        case .sendFailure(let again, let until):
            keep(bytes, slot)
            if let again { armResend(slot, at: again) }
            armWait(slot, at: until)
            sendResponse(bytes, slot, into: &out)
        case .repeatResponse: sendResponse(servers.records[slot].response, slot, into: &out)
        case .sendAgain(let next):
            armResend(slot, at: next)
            sendResponse(servers.records[slot].response, slot, into: &out)
        case .absorb(let until):
            servers.records[slot].response = []
            deadlines.cancel(servers.records[slot].resend)
            armWait(slot, at: TransactionTimers.shared(until))
        case .end: end(slot, into: &out)
        case .endUnacknowledged:
            out.append(.serverTimedOut(ServerTransactionID(rawValue: servers.records[slot].id)))
            end(slot, into: &out)
        }
    }

    private mutating func perform(
        _ action: NonInviteServerTransaction.Action, _ slot: Int, _ bytes: [UInt8],
        into out: inout [TransactionOutput]
    ) {
        switch action {
        case .none: break
        case .sendProvisional:
            servers.records[slot].response = bytes
            sendResponse(bytes, slot, into: &out)
        case .holdProvisional(let until):
            servers.records[slot].response = bytes
            armResend(slot, at: until)
        case .sendFinal(let until):
            servers.records[slot].response = bytes
            sendResponse(bytes, slot, into: &out)
            complete(slot, until: until, into: &out)
        case .sendFinalAndEnd:
            sendResponse(bytes, slot, into: &out)
            end(slot, into: &out)
        case .repeatResponse: sendResponse(servers.records[slot].response, slot, into: &out)
        case .stayQuiet(let until):
            servers.records[slot].response = []
            complete(slot, until: until, into: &out)
        case .end: end(slot, into: &out)
        }
    }

    /// Stores a response without unused capacity, because it may stay in memory for a long time.
    private mutating func keep(_ bytes: [UInt8], _ slot: Int) {
        guard bytes.capacity - bytes.count > 32 else {
            servers.records[slot].response = bytes
            return
        }
        var tight: [UInt8] = []
        tight.reserveCapacity(bytes.count)
        tight.append(contentsOf: bytes)
        servers.records[slot].response = tight
    }

    private mutating func sendResponse(_ bytes: [UInt8], _ slot: Int, into out: inout [TransactionOutput]) {
        guard !bytes.isEmpty else { return }
        out.append(.send(bytes, on: servers.records[slot].flow))
    }

    private mutating func armResend(_ slot: Int, at instant: Instant) {
        deadlines.cancel(servers.records[slot].resend)
        servers.records[slot].resend = deadlines.schedule(TransactionDeadline(.serverResend, slot: slot), at: instant)
    }

    private mutating func armWait(_ slot: Int, at instant: Instant) {
        deadlines.cancel(servers.records[slot].wait)
        servers.records[slot].wait = deadlines.schedule(TransactionDeadline(.serverWait, slot: slot), at: instant)
    }

    private mutating func complete(_ slot: Int, until: Instant, into out: inout [TransactionOutput]) {
        deadlines.cancel(servers.records[slot].resend)
        deadlines.cancel(servers.records[slot].wait)
        completed.append((ServerTransactionID(rawValue: servers.records[slot].id), TransactionTimers.shared(until)))
        while completed.count > limits.completedNonInvite { dropOldestCompleted(into: &out) }
    }

    private mutating func end(_ slot: Int, into out: inout [TransactionOutput]) {
        deadlines.cancel(servers.records[slot].resend)
        deadlines.cancel(servers.records[slot].wait)
        serverIndex.remove(hash: servers.records[slot].key.hash, slot: UInt32(slot))
        out.append(.serverEnded(ServerTransactionID(rawValue: servers.records[slot].id)))
        servers.remove(slot: slot)
    }
}
