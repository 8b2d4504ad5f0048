package import Addressing
package import Collections
package import PushDelivery
package import Registration
package import Routing
package import SIPGrammar
package import SIPTransactions

/// One target of a fork: a device of the called user, or a next hop such as the PBX.
package struct ForkBranch: Sendable {
    package enum State: Hashable, Sendable {
        /// The request was not sent yet; the next state is `delayed`, `waiting`, `resolving`, `calling` or `ended`.
        case unsent
        /// The device's turn to ring has not come (``RingTurns``); the next state is `unsent` or `ended`.
        case delayed
        /// The branch was active or cancelled when the daemon's earlier run ended. The next state can be any state
        /// except `unsent`.
        case resumed(cancelled: Fork.CancelReason?)
        /// The branch waits until its device registers or sends a message; the next state is `resolving`, `calling` or
        /// `ended`.
        case waiting
        /// The addresses of the next hop are being looked up; the next state is `calling`, `ended`, or `cancelled` if
        /// the daemon's earlier run cancelled the INVITE.
        case resolving(ResolutionTicket, cancelled: Fork.CancelReason?)
        /// The request was sent in the given client transaction; the next state is `silent`, `takingBack`, `cancelled`,
        /// `ended`, or `waiting` if the device's flow changes.
        case calling(ClientTransactionID)
        /// The device got the request twice and refused the later copy, so the earlier transaction is being cancelled.
        /// When the cancelled transaction is over, the daemon sends the request to the device again.
        case takingBack(ClientTransactionID)
        /// The request was sent, and no response came: the device may sleep, and the branch waits for the device. The
        /// client transaction of a silent branch continues: a response leads to `calling`.
        case silent(ClientTransactionID)
        /// The request was cancelled; its final response ends the branch.
        case cancelled(ClientTransactionID, Fork.CancelReason)
        case ended(End)
    }

    package enum End: Hashable, Sendable {
        case succeeded
        case failed(Status)
        /// The branch failed with a status that this proxy chose, because no response came or the phone could not be
        /// reached.
        case gaveUp(Status)
        case silent
        case cancelled(Fork.CancelReason)
    }

    /// The progress of the branch's push.
    private enum Waking: UInt8 {
        /// No push was sent, or the provider refused the push.
        case none
        /// The branch's push was sent to the push provider.
        case left
        /// The provider has accepted the push, so that the phone may ring.
        case taken
    }

    /// Whether the device knows the call. A response of 180 or more, except 408 and 503, shows that the device knows
    /// the call (reading A21).
    private enum Knowledge: UInt8 {
        case none
        /// The device responded before the branch's present timeline record began.
        case before
        case sinceRecord
    }

    // Small properties are declared together, so that no memory is lost between them: the daemon keeps many branches.
    package private(set) var state = State.unsent
    private var waking = Waking.none
    private var knowledge = Knowledge.none
    /// Whether the request was sent more than once, because the device moved to a new address or connection.
    package private(set) var hasMoved = false
    /// How often the device refused the request with 482 because the device got the request twice.
    private var loops: UInt8 = 0
    /// Whether a response, including 100, has come since the request was first sent, or since the branch last returned
    /// to waiting.
    package private(set) var wasHeard = false
    /// Whether ``WakeDesk`` lists the branch's call under its device.
    package private(set) var isListed = false
    /// The value of ``news`` (the state bits of the branch) when the branch was last written to the call journal.
    private var written: UInt8 = 0
    /// The binding that the branch calls; `nil` for the upstream and for next hops inside a dialog.
    @PackedOptional package private(set) var device: DeviceID?
    /// The push for the branch, until the push has a final outcome.
    @PackedOptional package private(set) var push: PushID?
    /// The branch's record in the timeline; `nil` after the end of the branch was written into the record.
    @PackedOptional package private(set) var record: RecordID?
    /// The flow, the contact and the earlier transactions of the branch's request. Before the request is sent, the
    /// value is `nil` to save memory.
    private var course = BoxedOptional<Course>()

    private struct Course: Sendable {
        var flow: Flow?
        @PackedOptional var contact: DeviceID?
        @PackedOptional var routeHash: Int?
        var former: [ClientTransactionID] = []
    }

    /// Creates a branch whose request was not sent yet; `device` is `nil` for a next hop that is no device of our
    /// users.
    package init(device: DeviceID?) { self.device = device }

    /// Restores a branch of the daemon's earlier run, whose request was not sent in this run yet.
    package init(resuming stored: StoredCall.Branch) {
        device = stored.device
        // If the INVITE was sent together with the push, the push is treated as accepted. Any other push is sent again,
        // unless the provider has accepted it.
        if stored.wasWoken || stored.stage == .called && stored.code != nil { waking = .taken }
        if stored.deviceKnows { knowledge = .before }
        hasMoved = stored.hasMoved
        if stored.stage == .ended {
            state = .ended(stored.end ?? .silent)
        } else if stored.stage == .delayed {
            state = .delayed
        } else if case .cancelled(let reason)? = stored.end {
            state = .resumed(cancelled: reason)
        } else {
            state = .resumed(cancelled: nil)
        }
        if let contact = stored.contact { diverted(to: contact) }
        wasWritten()
    }

    // MARK: Questions

    /// The registered contact that got the request instead of the branch's device. The device itself was only reported
    /// over HTTP.
    package var contact: DeviceID? { course.value?.contact }

    /// A hash of the device's flow and Path at the time when the request was last sent. If the device's present hash
    /// differs, the device has moved to a new address or connection.
    package var routeHash: Int? { course.value?.routeHash }

    /// Transactions of the branch on earlier flows of the device, in which a response can still arrive.
    package var former: [ClientTransactionID] { course.value?.former ?? [] }

    /// The flow on which the branch's request was last sent.
    package var flow: Flow? { course.value?.flow }

    /// The reason why the branch ended or was cancelled; `nil` for an active branch.
    package var end: End? { if case .ended(let end) = state { end } else { cancellation.map { .cancelled($0) } } }

    private var cancellation: Fork.CancelReason? {
        switch state {
        case .resumed(let reason), .resolving(_, let reason): reason
        case .cancelled(_, let reason): reason
        case .unsent, .delayed, .waiting, .calling, .takingBack, .silent, .ended: nil
        }
    }

    /// Whether the device's turn to ring has not come.
    package var isDelayed: Bool { if case .delayed = state { true } else { false } }

    package var isEnded: Bool { if case .ended = state { true } else { false } }

    /// Whether the branch waits for its device.
    package var isWaiting: Bool {
        switch state {
        case .waiting, .silent: true
        case .unsent, .delayed, .resumed, .resolving, .calling, .takingBack, .cancelled, .ended: false
        }
    }

    /// The client transaction of the last request, until its final response arrives.
    package var client: ClientTransactionID? {
        switch state {
        case .calling(let client), .takingBack(let client), .silent(let client), .cancelled(let client, _): client
        case .unsent, .delayed, .resumed, .waiting, .resolving, .ended: nil
        }
    }

    /// Whether the request is in progress: it was sent, has no final response, and the branch does not wait for its
    /// device.
    package var isUnderWay: Bool { client != nil && !isWaiting }

    /// Whether the request is in progress in the given transaction, and the branch does not wait for its device.
    package func isUnderWay(by client: ClientTransactionID) -> Bool { self.client == client && !isWaiting }

    /// Whether the branch waits for the result of the given DNS look-up.
    package func isResolving(_ ticket: ResolutionTicket) -> Bool {
        if case .resolving(ticket, _) = state { true } else { false }
    }

    /// Whether the branch's push was sent to the push provider.
    package var wasPushed: Bool { waking != .none }
    /// Whether the provider has accepted the push, so that the phone may ring.
    package var wasWoken: Bool { waking == .taken }

    /// Whether the device knows the call, because it has sent a response of 180 or more, except 408 and 503 (reading
    /// A21).
    package var deviceKnows: Bool { knowledge != .none }
    /// Whether the device has sent a response of 180 or more, other than 408 and 503, since the branch's timeline
    /// record began.
    package var hasRung: Bool { knowledge == .sinceRecord }

    /// Whether the branch sends its request to the given binding, either as its device or in place of its device.
    package func isOf(_ binding: DeviceID) -> Bool { device == binding || contact == binding }

    /// The binding whose flow gets the request.
    package var addressee: DeviceID? { contact ?? device }

    /// Whether the given contact already has the request of the branch. The parameter `present` is the contact's
    /// present ``routeHash``.
    package func hasReached(_ binding: DeviceID, by present: Int) -> Bool {
        guard isOf(binding) else { return false }
        if deviceKnows { return true }
        if case .gaveUp = end { return false }
        return routeHash == present
    }

    // MARK: Sending

    /// Lets the branch wait for the turn of its device, before the request is sent.
    package mutating func delays() { state = .delayed }

    /// Notes that the turn of the branch's device has come.
    package mutating func turnCame() { if isDelayed { state = .unsent } }

    /// Begins the wait for the branch's device, before the request is sent.
    package mutating func waits() { state = .waiting }

    /// Notes the hash of the flow or Path with which the device is registered, just before the request is sent.
    package mutating func aimed(routeHash: Int) {
        if self.routeHash != routeHash { course.change(orNew: Course()) { $0.routeHash = routeHash } }
    }

    /// Notes that the request is sent to a contact of the user instead of the branch's own device.
    package mutating func diverted(to contact: DeviceID) { course.change(orNew: Course()) { $0.contact = contact } }

    /// Notes that the branch's own device has registered, so that no other contact gets the request in its place.
    package mutating func deviceCame() { if contact != nil { course.change(orNew: Course()) { $0.contact = nil } } }

    /// Replaces the id of a device by `successor`, because the binding with the old id was removed and `successor` is another
    /// binding of the same device.
    package mutating func renamed(_ old: DeviceID, to successor: DeviceID) {
        if device == old { device = successor }
        if contact == old { diverted(to: successor) }
    }

    /// Notes that the DNS look-up of the next hop has begun.
    package mutating func resolving(_ ticket: ResolutionTicket) { state = .resolving(ticket, cancelled: cancellation) }

    /// Notes that the request was sent; a branch that the daemon's earlier run cancelled stays cancelled.
    package mutating func sent(as client: ClientTransactionID, on flow: Flow) {
        state = cancellation.map { .cancelled(client, $0) } ?? .calling(client)
        if self.flow != flow { course.change(orNew: Course()) { $0.flow = flow } }
    }

    /// Notes that no response to the request has come in time; a late response still counts.
    package mutating func fellSilent() { if case .calling(let client) = state { state = .silent(client) } }

    /// Notes a response to one of the branch's transactions; a response to the present transaction ends the state
    /// `silent`.
    package mutating func heard(_ client: ClientTransactionID) {
        wasHeard = true
        if state == .silent(client) { state = .calling(client) }
    }

    /// Notes that the device has sent a response of 180 or more, so that it knows of the call.
    mutating func deviceSpoke() { knowledge = .sinceRecord }

    // MARK: The device moves to another flow

    /// Lets the branch wait for its device again. A late 2xx in the present transaction is still accepted.
    package mutating func recalled() {
        guard let client else { return }
        becomesFormer(client)
        hasMoved = true
        wasHeard = false
        state = .waiting
    }

    /// The action after a 482 from a device that got the request in two transactions.
    package enum Loop: Hashable, Sendable {
        /// Cancel the given transaction, by which the device rings, and send the request again when the transaction has
        /// ended.
        case takeBack(ClientTransactionID)
        /// Send the request again immediately, because the earlier transaction is over.
        case repeatNow
        /// Treat the 482 as the final response of the branch, because the 482 has another cause or came too often.
        case isFinal
    }

    /// Handles a 482 of a device that got the INVITE twice and refused the later copy.
    package mutating func loopReported() -> Loop {
        guard hasMoved, loops < Self.mostLoops else { return .isFinal }
        deviceSpoke()
        loops += 1
        guard let earlier = former.last else {
            state = .waiting
            return .repeatNow
        }
        formerEnded(earlier)
        state = .takingBack(earlier)
        return .takeBack(earlier)
    }

    private static let mostLoops: UInt8 = 3

    /// Notes that a transaction of the branch ended without a 2xx, and returns whether the branch was in the state
    /// `takingBack`.
    ///
    /// A branch in the state `takingBack` waits for its device from now on. Until the device responds, the daemon
    /// cannot know which of several earlier transactions has reached the device.
    package mutating func takenBack(_ client: ClientTransactionID) -> Bool {
        guard case .takingBack(let present) = state else { return false }
        if present != client { becomesFormer(present) }
        state = .waiting
        return true
    }

    private mutating func becomesFormer(_ client: ClientTransactionID) {
        course.change(orNew: Course()) { $0.former.append(client) }
    }

    /// Notes that a former transaction is over, so that no response to it can come any more.
    package mutating func formerEnded(_ client: ClientTransactionID) {
        if former.contains(client) { course.change(orNew: Course()) { $0.former.removeAll { $0 == client } } }
    }

    // MARK: The end

    /// Cancels the branch, which ends immediately if no transaction is in progress.
    ///
    /// - Returns: the transaction that was in progress, and whether the branch waited for its device.
    package mutating func cancelled(_ reason: Fork.CancelReason) -> (client: ClientTransactionID?, wasWaiting: Bool) {
        let was = (client, isWaiting)
        switch state {
        case .calling(let client), .takingBack(let client): state = .cancelled(client, reason)
        case .silent(let client):
            becomesFormer(client)
            state = .ended(.cancelled(reason))
        case .unsent, .delayed, .waiting: state = .ended(.cancelled(reason))
        case .resumed(let earlier), .resolving(_, let earlier): state = .ended(.cancelled(earlier ?? reason))
        case .cancelled, .ended: break
        }
        return was
    }

    /// Ends the branch. If the branch was cancelled, its end is the reason of the CANCEL.
    package mutating func ended(_ end: End) {
        if case .silent(let client) = state { becomesFormer(client) }
        state = .ended(cancellation.map { .cancelled($0) } ?? end)
    }

    /// Ends the branch without a response that could be forwarded.
    package mutating func silenced() { state = .ended(.silent) }

    /// Notes a 2xx of the device in the given transaction. If the caller already got a refusal, the branch keeps its
    /// earlier end.
    package mutating func succeeded(by client: ClientTransactionID?, isRefused: Bool) {
        state = .ended(isRefused ? end ?? .silent : .succeeded)
        if let client { formerEnded(client) }
    }

    /// Ends a cancelled branch before its final response comes, and returns false if the branch was not cancelled. A
    /// 2xx in the transaction of an abandoned branch still counts.
    package mutating func abandoned() -> Bool {
        guard case .cancelled(let client, let reason) = state else { return false }
        becomesFormer(client)
        state = .ended(.cancelled(reason))
        return true
    }

    // MARK: Push, record, called devices, store

    package mutating func pushAsked(_ push: PushID) { self.push = push }

    /// Notes that the daemon has sent the branch's push to its provider.
    package mutating func pushLeft() { if waking == .none { waking = .left } }

    /// Notes that the provider has refused the branch's push, so that the engine can send the push again.
    package mutating func pushRefused() { if waking == .left { waking = .none } }

    /// Notes that the provider has accepted the branch's push, so that the phone may ring even if the branch has
    /// stopped waiting.
    package mutating func pushTaken() { waking = .taken }

    /// Removes and returns the branch's push, because the push is over or no longer needed.
    package mutating func takePush() -> PushID? {
        defer { push = nil }
        return push
    }

    /// Sets the new timeline record of the branch; earlier responses of the device belong to the previous record.
    package mutating func recorded(as record: RecordID) {
        self.record = record
        if knowledge == .sinceRecord { knowledge = .before }
    }

    /// Removes and returns the branch's timeline record, so that the end of the branch can be written into it.
    package mutating func takeRecord() -> RecordID? {
        defer { record = nil }
        return record
    }

    package mutating func wasListed() { isListed = true }

    package mutating func wasUnlisted() { isListed = false }

    /// Notes that the call journal has the branch's present state.
    package mutating func wasWritten() { written = news }

    /// Whether the branch has changed since it was last written to the journal.
    package var hasNews: Bool { written != news }

    /// State bits of the branch. They change when the branch's entry in the journal must change.
    private var news: UInt8 {
        let stage: UInt8 =
            switch self.stage {
            case .waiting: 1
            case .called: 2
            case .ended: 3
            case .delayed: 0
            }
        let end = self.end
        return stage | (wasWoken ? 4 : 0) | (deviceKnows ? 8 : 0) | (hasMoved ? 16 : 0) | (end != nil ? 32 : 0)
            | (push != nil || wasPushed ? 64 : 0)
            // If a branch has failed or was cancelled, a late 2xx changes the end of the branch.
            | (end == .succeeded ? 128 : 0)
    }

    /// The state of the branch, as the journal and operators see it.
    package var stage: StoredCall.Branch.Stage {
        switch state {
        case .waiting: .waiting
        case .delayed: .delayed
        case .unsent, .resumed, .resolving, .calling, .takingBack, .silent, .cancelled: .called
        case .ended: .ended
        }
    }
}

extension ForkTarget {
    /// A hash that changes when the device registers on another flow: a hash of the flow or, behind an edge, of the
    /// Path. An edge's flow would not identify the device, because many devices share the edge's flow.
    package var routeHash: Int { path.isEmpty ? flow.hashValue : path.hashValue }
}
