package import Addressing
package import Collections
package import PushDelivery
package import Registration
package import Routing
package import SIPGrammar
package import SIPTransactions

/// One target of a fork: a device of our users, or another next hop. Only the fork changes its branches.
package struct ForkBranch: Sendable {
    package enum State: Hashable, Sendable {
        /// The request was not sent yet. The next state is `waiting`, `resolving`, `calling` or `ended`.
        case unsent
        /// An earlier run of the daemon left the branch active, and may have cancelled it. The next state can be any
        /// except `unsent`.
        case resumed(cancelled: Fork.CancelReason?)
        /// The branch waits until its device registers or shows life. The next state is `resolving` or `calling` when
        /// the device registers or shows life, or `ended`.
        case waiting
        /// The addresses of the next hop are being looked up. The next state is `calling`, `cancelled` (for an INVITE
        /// that an earlier run cancelled) or `ended`.
        case resolving(ResolutionTicket, cancelled: Fork.CancelReason?)
        /// The request was sent in this client transaction. The next state is `silent`, `takingBack`, `cancelled`,
        /// `ended`, or `waiting` when the device has moved or its connection has ended.
        case calling(ClientTransactionID)
        /// The device received the request twice and refused the later copy. The earlier of the two transactions, named
        /// here, is being cancelled. When the earlier transaction is over, the request is sent again. The next state is
        /// `waiting`, `cancelled` or `ended`.
        case takingBack(ClientTransactionID)
        /// The request was sent and no response came: the device may sleep, and the branch waits for the device. The
        /// transaction of the request continues. The next state is `calling` when the device responds, `waiting` when
        /// the device has moved, or `ended`.
        case silent(ClientTransactionID)
        /// The request is cancelled. The final response to the request ends the branch. The next state is `ended`.
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
        /// A push was sent to the provider.
        case left
        /// The provider has accepted the push, so that the phone may ring.
        case taken
    }

    /// Whether the device has shown that it knows of the call: by a response of 180 or more, other than 408 and 503
    /// (reading A21).
    private enum Knowledge: UInt8 {
        case none
        /// The device responded before the branch's present timeline record began.
        case before
        case sinceRecord
    }

    // Small properties are declared together and leave no gaps, because many calls are kept in memory.
    package private(set) var state = State.unsent
    private var waking = Waking.none
    private var knowledge = Knowledge.none
    /// Whether the request was sent more than once, because the device moved.
    package private(set) var hasMoved = false
    /// The number of 482 responses by which the device refused the request because it got the request twice.
    private var loops: UInt8 = 0
    /// Whether any response, including 100, has come since the request was first sent, or since the branch was
    /// recalled.
    package private(set) var wasHeard = false
    /// Whether ``WakeDesk`` lists the branch's call under its device.
    package private(set) var isListed = false
    /// The value of ``news`` when the branch was last written to the store.
    private var written: UInt8 = 0
    /// The binding that the branch calls; `nil` for the upstream and for next hops inside a dialog.
    @PackedOptional package private(set) var device: DeviceID?
    /// The push for this branch, while it is active.
    @PackedOptional package private(set) var push: PushID?
    /// The branch's record in the timeline, until the record has the branch's end.
    @PackedOptional package private(set) var record: RecordID?
    /// The data about the way of the request. To save memory, a branch that has sent nothing has none.
    private var course = BoxedOptional<Course>()

    private struct Course: Sendable {
        var flow: Flow?
        @PackedOptional var contact: DeviceID?
        @PackedOptional var routeHash: Int?
        var former: [ClientTransactionID] = []
    }

    /// Creates a branch whose request was not sent yet. If `device` is `nil`, the target of the branch is a next hop
    /// and not a device of our users.
    package init(device: DeviceID?) { self.device = device }

    /// Restores a branch of an earlier run. In this run, the request has not been sent yet.
    package init(resuming stored: StoredCall.Branch) {
        device = stored.device
        // If the provider has not accepted a push, it is sent again. A phone that could be reached when the call
        // arrived gets no second push.
        if stored.wasWoken || stored.stage == .called && stored.code != nil { waking = .taken }
        if stored.deviceKnows { knowledge = .before }
        hasMoved = stored.hasMoved
        if stored.stage == .ended {
            state = .ended(stored.end ?? .silent)
        } else if case .cancelled(let reason)? = stored.end {
            state = .resumed(cancelled: reason)
        } else {
            state = .resumed(cancelled: nil)
        }
        if let contact = stored.contact { diverted(to: contact) }
        wasWritten()
    }

    // MARK: Questions

    /// The registered contact that got the request in place of the branch's device. Only a device that was reported
    /// over HTTP and has not registered is replaced by a contact.
    package var contact: DeviceID? { course.value?.contact }

    /// A hash of the flow and Path on which the device was registered when the request was last sent. If the present
    /// hash differs, the device has moved.
    package var routeHash: Int? { course.value?.routeHash }

    /// Earlier transactions of the branch, from before the device moved, that may still get a response.
    package var former: [ClientTransactionID] { course.value?.former ?? [] }

    /// The flow on which the request was last sent.
    package var flow: Flow? { course.value?.flow }

    /// The reason why the branch ended or was cancelled; `nil` for an active branch.
    package var end: End? { if case .ended(let end) = state { end } else { cancellation.map { .cancelled($0) } } }

    private var cancellation: Fork.CancelReason? {
        switch state {
        case .resumed(let reason), .resolving(_, let reason): reason
        case .cancelled(_, let reason): reason
        case .unsent, .waiting, .calling, .takingBack, .silent, .ended: nil
        }
    }

    package var isEnded: Bool { if case .ended = state { true } else { false } }

    /// Whether the branch waits for its device.
    package var isWaiting: Bool {
        switch state {
        case .waiting, .silent: true
        case .unsent, .resumed, .resolving, .calling, .takingBack, .cancelled, .ended: false
        }
    }

    /// The client transaction of the last request, until its final response arrives.
    package var client: ClientTransactionID? {
        switch state {
        case .calling(let client), .takingBack(let client), .silent(let client), .cancelled(let client, _): client
        case .unsent, .resumed, .waiting, .resolving, .ended: nil
        }
    }

    /// Whether the request was sent and has no final response, and the branch does not wait for its device.
    package var isUnderWay: Bool { client != nil && !isWaiting }

    /// Whether the request is in progress in the given transaction, and the branch does not wait for its device.
    package func isUnderWay(by client: ClientTransactionID) -> Bool { self.client == client && !isWaiting }

    /// Whether the branch waits for the result of the given look-up.
    package func isResolving(_ ticket: ResolutionTicket) -> Bool {
        if case .resolving(ticket, _) = state { true } else { false }
    }

    /// Whether a push was sent to the provider.
    package var wasPushed: Bool { waking != .none }
    /// Whether the provider has accepted the push, so that the phone may ring.
    package var wasWoken: Bool { waking == .taken }

    /// Whether the device knows of the call: it sent a response of 180 or more, other than 408 and 503 (reading A21).
    package var deviceKnows: Bool { knowledge != .none }
    /// Whether the device sent a response of 180 or more, other than 408 and 503, since the branch's timeline record
    /// began.
    package var hasRung: Bool { knowledge == .sinceRecord }

    /// Whether the branch calls the given binding, as its own device or in place of its own device.
    package func isOf(_ binding: DeviceID) -> Bool { device == binding || contact == binding }

    /// The binding whose flow gets the request.
    package var addressee: DeviceID? { contact ?? device }

    /// Whether the given contact, which is registered on the way with the hash `present`, already has the request from
    /// this branch.
    package func hasReached(_ binding: DeviceID, by present: Int) -> Bool {
        guard isOf(binding) else { return false }
        if deviceKnows { return true }
        if case .gaveUp = end { return false }
        return routeHash == present
    }

    // MARK: Sending

    /// Begins the wait for the branch's device. The request was not sent.
    package mutating func waits() { state = .waiting }

    /// Notes the way on which the device is registered now, just before the request is sent.
    package mutating func aimed(routeHash: Int) {
        if self.routeHash != routeHash { course.change(orNew: Course()) { $0.routeHash = routeHash } }
    }

    /// Notes that the request is sent to a contact of the user instead of the branch's own device.
    package mutating func diverted(to contact: DeviceID) { course.change(orNew: Course()) { $0.contact = contact } }

    /// Notes that the branch's own device has registered, so that no other contact gets the request in its place.
    package mutating func deviceCame() { if contact != nil { course.change(orNew: Course()) { $0.contact = nil } } }

    /// Replaces the id of a device by `heir`, because the binding with the old id was removed and `heir` is another
    /// binding of the same device.
    package mutating func renamed(_ old: DeviceID, to heir: DeviceID) {
        if device == old { device = heir }
        if contact == old { diverted(to: heir) }
    }

    /// Notes that the look-up of the next hop has begun.
    package mutating func resolving(_ ticket: ResolutionTicket) { state = .resolving(ticket, cancelled: cancellation) }

    /// Notes that the request was sent. A branch that an earlier run cancelled stays cancelled.
    package mutating func sent(as client: ClientTransactionID, on flow: Flow) {
        state = cancellation.map { .cancelled(client, $0) } ?? .calling(client)
        if self.flow != flow { course.change(orNew: Course()) { $0.flow = flow } }
    }

    /// Notes that no response to the request has come in time. A late response still counts.
    package mutating func fellSilent() { if case .calling(let client) = state { state = .silent(client) } }

    /// Notes a response to one of the branch's transactions. A response to the present transaction ends the state
    /// `silent`.
    package mutating func heard(_ client: ClientTransactionID) {
        wasHeard = true
        if state == .silent(client) { state = .calling(client) }
    }

    /// Notes that the device sent a response of 180 or more.
    mutating func deviceSpoke() { knowledge = .sinceRecord }

    // MARK: The device moves

    /// Lets the branch wait for its device again. A late 2xx in the present transaction still counts.
    package mutating func recalled() {
        guard let client else { return }
        becomesFormer(client)
        hasMoved = true
        wasHeard = false
        state = .waiting
    }

    /// The action after a 482 from a device that got the request in two transactions.
    package enum Loop: Hashable, Sendable {
        /// Cancel the given transaction, by which the device rings. When this transaction has ended, the request is
        /// sent again.
        case takeBack(ClientTransactionID)
        /// Send the request again immediately, because the earlier transaction is over.
        case repeatNow
        /// Treat the 482 as the branch's final response, because it has another cause or came too often.
        case isFinal
    }

    /// Handles a 482: the device got the request twice, and refused the later copy.
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

    /// Handles a transaction of the branch that ended without a 2xx. In the state `takingBack`, the branch waits for
    /// its device now.
    ///
    /// If several former transactions exist, nobody knows which of them reached the device until the device responds to
    /// one of them.
    ///
    /// - Returns: whether the branch was in the state `takingBack`.
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

    /// Cancels the branch. If no transaction is in progress, the branch ends immediately.
    ///
    /// - Returns: the transaction that was in progress, and whether the branch waited for its device.
    package mutating func cancelled(_ reason: Fork.CancelReason) -> (client: ClientTransactionID?, wasWaiting: Bool) {
        let was = (client, isWaiting)
        switch state {
        case .calling(let client), .takingBack(let client): state = .cancelled(client, reason)
        case .silent(let client):
            becomesFormer(client)
            state = .ended(.cancelled(reason))
        case .unsent, .waiting: state = .ended(.cancelled(reason))
        case .resumed(let earlier), .resolving(_, let earlier): state = .ended(.cancelled(earlier ?? reason))
        case .cancelled, .ended: break
        }
        return was
    }

    /// Ends the branch. The end of a cancelled branch is the reason of its CANCEL.
    package mutating func ended(_ end: End) {
        if case .silent(let client) = state { becomesFormer(client) }
        state = .ended(cancellation.map { .cancelled($0) } ?? end)
    }

    /// Ends the branch without a response that could be forwarded.
    package mutating func silenced() { state = .ended(.silent) }

    /// Notes a 2xx of the device in the given transaction. If the caller already has a refusal, the branch keeps its
    /// earlier end.
    package mutating func succeeded(by client: ClientTransactionID?, isRefused: Bool) {
        state = .ended(isRefused ? end ?? .silent : .succeeded)
        if let client { formerEnded(client) }
    }

    /// Ends a cancelled branch before its final response comes. A 2xx of the branch's transaction still counts.
    ///
    /// - Returns: whether the branch had been cancelled.
    package mutating func abandoned() -> Bool {
        guard case .cancelled(let client, let reason) = state else { return false }
        becomesFormer(client)
        state = .ended(.cancelled(reason))
        return true
    }

    // MARK: Push, record, called devices, store

    package mutating func pushAsked(_ push: PushID) { self.push = push }

    /// Notes that the push was sent to the provider.
    package mutating func pushLeft() { if waking == .none { waking = .left } }

    /// Notes that the provider has refused the push, so that the engine may send it again.
    package mutating func pushRefused() { if waking == .left { waking = .none } }

    /// Notes that the provider has accepted the push, so that the phone may ring. The branch may have stopped waiting
    /// before.
    package mutating func pushTaken() { waking = .taken }

    /// Removes the push from the branch, because the push is over or no longer needed.
    ///
    /// - Returns: the push, if the branch had one.
    package mutating func takePush() -> PushID? {
        defer { push = nil }
        return push
    }

    /// Sets the branch's timeline record, which begins now. Earlier responses of the device belong to the previous
    /// record.
    package mutating func recorded(as record: RecordID) {
        self.record = record
        if knowledge == .sinceRecord { knowledge = .before }
    }

    /// Removes the timeline record from the branch. The caller of this method writes the branch's end into the record.
    package mutating func takeRecord() -> RecordID? {
        defer { record = nil }
        return record
    }

    package mutating func wasListed() { isListed = true }

    package mutating func wasUnlisted() { isListed = false }

    /// Notes that the store has the branch's present state.
    package mutating func wasWritten() { written = news }

    /// Whether the branch has changed since it was last written to the store.
    package var hasNews: Bool { written != news }

    /// A few bits that change whenever the stored form of the branch changes.
    private var news: UInt8 {
        let stage: UInt8 =
            switch self.stage {
            case .waiting: 1
            case .called: 2
            case .ended: 3
            }
        let end = self.end
        return stage | (wasWoken ? 4 : 0) | (deviceKnows ? 8 : 0) | (hasMoved ? 16 : 0) | (end != nil ? 32 : 0)
            | (push != nil || wasPushed ? 64 : 0)
            // A phone may answer after its branch has failed or was cancelled, and the 2xx then changes the branch's
            // end.
            | (end == .succeeded ? 128 : 0)
    }

    /// The branch's state, as the store and operators see it.
    package var stage: StoredCall.Branch.Stage {
        switch state {
        case .waiting: .waiting
        case .unsent, .resumed, .resolving, .calling, .takingBack, .silent, .cancelled: .called
        case .ended: .ended
        }
    }
}

extension ForkTarget {
    /// A hash that stands for the way to the device: a hash of the device's flow or, behind an edge, of the edge's
    /// Path. The edge's flow would not identify the device, because many devices share it.
    package var routeHash: Int { path.isEmpty ? flow.hashValue : path.hashValue }
}
