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
        /// The request was not sent yet. Next: `waiting`, `resolving`, `calling`, `ended`.
        case unsent
        /// An earlier run of the daemon left the branch active, and may have cancelled it. Next: any state but
        /// `unsent`.
        case resumed(cancelled: Fork.CancelReason?)
        /// The branch waits until its device registers or shows life. Next: `resolving` or `calling` when the device
        /// did so; `ended`.
        case waiting
        /// The next hop's addresses are being looked up. Next: `calling`; `cancelled` for an INVITE that an earlier run
        /// cancelled; `ended`.
        case resolving(ResolutionTicket, cancelled: Fork.CancelReason?)
        /// The request was sent in this client transaction. Next: `silent`, `takingBack`, `cancelled`, `ended`;
        /// `waiting` when the device has moved or its connection has ended.
        case calling(ClientTransactionID)
        /// The device got the request twice and refused the later one. The earlier transaction, named here, is being
        /// cancelled. When it is over, the request is sent again. Next: `waiting`, `cancelled`, `ended`.
        case takingBack(ClientTransactionID)
        /// The request was sent and no response came: the device may sleep, and the branch waits for it. The
        /// transaction continues. Next: `calling` when the device responds, `waiting` when the device has moved,
        /// `ended`.
        case silent(ClientTransactionID)
        /// The request is cancelled. The final response to the request ends the branch. Next: `ended`.
        case cancelled(ClientTransactionID, Fork.CancelReason)
        case ended(End)
    }

    package enum End: Hashable, Sendable {
        case succeeded
        case failed(Status)
        /// The branch failed with a status that we chose: no response came, or the phone could not be reached.
        case gaveUp(Status)
        case silent
        case cancelled(Fork.CancelReason)
    }

    /// How far the branch's push has come.
    private enum Waking: UInt8 {
        /// No push was sent, or the provider refused it.
        case none
        /// A push was sent to the provider.
        case left
        /// The provider has accepted the push: the phone may ring.
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
    /// The request was sent more than once, because the device moved.
    package private(set) var hasMoved = false
    /// How often the device refused the request with 482 because it got the request twice.
    private var loops: UInt8 = 0
    /// A response has come since the request was first sent, or since the branch was recalled. A 100 counts.
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
    /// Where the request was sent. To save memory, a branch that has sent nothing has no course.
    private var course = BoxedOptional<Course>()

    private struct Course: Sendable {
        var flow: Flow?
        @PackedOptional var contact: DeviceID?
        @PackedOptional var routeHash: Int?
        var former: [ClientTransactionID] = []
    }

    /// A branch whose request was not sent yet. Without a device, its target is a next hop that is no device of our
    /// users.
    package init(device: DeviceID?) { self.device = device }

    /// A branch as an earlier run left it, and as the store has it. The request was not sent in this run yet.
    package init(resuming stored: StoredCall.Branch) {
        device = stored.device
        // A push that the provider has not accepted is sent again. A phone that could be reached when the call came
        // gets no second push.
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

    /// The registered contact that got the request instead of the device. Only a device that was reported but has not
    /// registered is replaced so.
    package var contact: DeviceID? { course.value?.contact }

    /// Where the device was registered when the request was last sent. If the device's present way differs, the device
    /// has moved.
    package var routeHash: Int? { course.value?.routeHash }

    /// Transactions before the present one that may still get a response: the device has moved since.
    package var former: [ClientTransactionID] { course.value?.former ?? [] }

    /// The flow on which the request was last sent.
    package var flow: Flow? { course.value?.flow }

    /// Why the branch ended. A cancelled branch has its reason before its final response comes.
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

    /// The client transaction of the last request, while it has no final response.
    package var client: ClientTransactionID? {
        switch state {
        case .calling(let client), .takingBack(let client), .silent(let client), .cancelled(let client, _): client
        case .unsent, .resumed, .waiting, .resolving, .ended: nil
        }
    }

    /// The request is in progress, and the branch does not wait for its device.
    package var isUnderWay: Bool { client != nil && !isWaiting }

    /// Whether the request is in progress in that transaction, and the branch does not wait for its device.
    package func isUnderWay(by client: ClientTransactionID) -> Bool { self.client == client && !isWaiting }

    /// Whether the branch waits for the result of that look-up.
    package func isResolving(_ ticket: ResolutionTicket) -> Bool {
        if case .resolving(ticket, _) = state { true } else { false }
    }

    /// A push was sent to the provider.
    package var wasPushed: Bool { waking != .none }
    /// The provider has accepted the push: the phone may ring.
    package var wasWoken: Bool { waking == .taken }

    /// The device knows of the call: it sent a response of 180 or more, other than 408 and 503 (reading A21).
    package var deviceKnows: Bool { knowledge != .none }
    /// The device sent a response of 180 or more, other than 408 and 503, since the branch's timeline record began.
    package var hasRung: Bool { knowledge == .sinceRecord }

    /// Whether the branch calls that binding, or sent the request to it instead.
    package func isOf(_ binding: DeviceID) -> Bool { device == binding || contact == binding }

    /// The binding whose flow gets the request.
    package var addressee: DeviceID? { contact ?? device }

    /// Whether that contact, reachable at `present`, already has the request from this branch.
    package func hasReached(_ binding: DeviceID, by present: Int) -> Bool {
        guard isOf(binding) else { return false }
        if deviceKnows { return true }
        if case .gaveUp = end { return false }
        return routeHash == present
    }

    // MARK: Sending

    /// The request was not sent, and the branch begins to wait for its device.
    package mutating func waits() { state = .waiting }

    /// The request is about to be sent to where the device is registered now.
    package mutating func aimed(routeHash: Int) {
        if self.routeHash != routeHash { course.change(orNew: Course()) { $0.routeHash = routeHash } }
    }

    /// The request goes to a contact of the user instead of the branch's own device.
    package mutating func diverted(to contact: DeviceID) { course.change(orNew: Course()) { $0.contact = contact } }

    /// The branch's own device has registered: the request goes to this device after all, not to another contact.
    package mutating func deviceCame() { if contact != nil { course.change(orNew: Course()) { $0.contact = nil } } }

    /// The binding that gave the device its number is gone. The device gets the number of another of its bindings, `heir`.
    package mutating func renamed(_ old: DeviceID, to heir: DeviceID) {
        if device == old { device = heir }
        if contact == old { diverted(to: heir) }
    }

    /// The look-up of the next hop has begun.
    package mutating func resolving(_ ticket: ResolutionTicket) { state = .resolving(ticket, cancelled: cancellation) }

    /// The request was sent. A branch that an earlier run cancelled stays cancelled.
    package mutating func sent(as client: ClientTransactionID, on flow: Flow) {
        state = cancellation.map { .cancelled(client, $0) } ?? .calling(client)
        if self.flow != flow { course.change(orNew: Course()) { $0.flow = flow } }
    }

    /// No response has come to the request.
    package mutating func fellSilent() { if case .calling(let client) = state { state = .silent(client) } }

    /// A response came to one of the branch's transactions. A response to the present transaction ends the state
    /// `silent`.
    package mutating func heard(_ client: ClientTransactionID) {
        wasHeard = true
        if state == .silent(client) { state = .calling(client) }
    }

    /// The device sent a response of 180 or more.
    mutating func deviceSpoke() { knowledge = .sinceRecord }

    // MARK: The device moves

    /// The branch waits for its device again. A late 2xx to the present transaction still counts.
    package mutating func recalled() {
        guard let client else { return }
        becomesFormer(client)
        hasMoved = true
        wasHeard = false
        state = .waiting
    }

    /// What to do after a 482 from a device that got the request in two transactions.
    package enum Loop: Hashable, Sendable {
        /// The device rings by this transaction. The transaction is cancelled, and the request is sent again when it is
        /// over.
        case takeBack(ClientTransactionID)
        /// The earlier transaction is over already: the request is sent again immediately.
        case repeatNow
        /// The 482 has another cause, or came too often. The 482 is the branch's final response.
        case isFinal
    }

    /// The device got the request twice, and refused the later one with 482.
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

    /// A transaction of the branch ended without a 2xx. If the branch was in the state `takingBack`, it waits for its
    /// device now.
    ///
    /// If several former transactions exist, nobody knows by which the device got the request, until the device
    /// responds to one.
    ///
    /// - Returns: whether the branch was taking a transaction back.
    package mutating func takenBack(_ client: ClientTransactionID) -> Bool {
        guard case .takingBack(let present) = state else { return false }
        if present != client { becomesFormer(present) }
        state = .waiting
        return true
    }

    private mutating func becomesFormer(_ client: ClientTransactionID) {
        course.change(orNew: Course()) { $0.former.append(client) }
    }

    /// A former transaction is over: no response of it can come any more.
    package mutating func formerEnded(_ client: ClientTransactionID) {
        if former.contains(client) { course.change(orNew: Course()) { $0.former.removeAll { $0 == client } } }
    }

    // MARK: The end

    /// Cancels the request. A branch without a transaction in progress ends immediately.
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

    /// The branch is over. A branch that was cancelled keeps the reason of its CANCEL as its end.
    package mutating func ended(_ end: End) {
        if case .silent(let client) = state { becomesFormer(client) }
        state = .ended(cancellation.map { .cancelled($0) } ?? end)
    }

    /// The branch ended without any response that may be passed on.
    package mutating func silenced() { state = .ended(.silent) }

    /// The device has answered with a 2xx in that transaction. If the caller already has a refusal, the branch keeps
    /// its earlier end.
    package mutating func succeeded(by client: ClientTransactionID?, isRefused: Bool) {
        state = .ended(isRefused ? end ?? .silent : .succeeded)
        if let client { formerEnded(client) }
    }

    /// A cancelled branch ends before its final response comes. A 2xx of its transaction still counts.
    ///
    /// - Returns: whether the branch was cancelled before.
    package mutating func abandoned() -> Bool {
        guard case .cancelled(let client, let reason) = state else { return false }
        becomesFormer(client)
        state = .ended(.cancelled(reason))
        return true
    }

    // MARK: Push, record, called devices, store

    package mutating func pushAsked(_ push: PushID) { self.push = push }

    /// The push was sent to the provider.
    package mutating func pushLeft() { if waking == .none { waking = .left } }

    /// The provider has refused the push, which counts as not sent. The push may be retried.
    package mutating func pushRefused() { if waking == .left { waking = .none } }

    /// The provider has accepted the push: the phone may ring, even if the branch no longer waited for the push.
    package mutating func pushTaken() { waking = .taken }

    /// The push is over, or is not needed any more.
    ///
    /// - Returns: the push, if the branch had one.
    package mutating func takePush() -> PushID? {
        defer { push = nil }
        return push
    }

    /// A new timeline record begins. Earlier responses of the device belong to the record before.
    package mutating func recorded(as record: RecordID) {
        self.record = record
        if knowledge == .sinceRecord { knowledge = .before }
    }

    /// Takes the record out of the branch. The caller of this method writes the branch's end into the record.
    package mutating func takeRecord() -> RecordID? {
        defer { record = nil }
        return record
    }

    package mutating func wasListed() { isListed = true }

    package mutating func wasUnlisted() { isListed = false }

    /// The store has the branch's present state.
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
            // A phone may answer after its branch failed or was cancelled: the end changes then.
            | (end == .succeeded ? 128 : 0)
    }

    /// The branch's state as the store and operators see it.
    package var stage: StoredCall.Branch.Stage {
        switch state {
        case .waiting: .waiting
        case .unsent, .resumed, .resolving, .calling, .takingBack, .silent, .cancelled: .called
        case .ended: .ended
        }
    }
}

extension ForkTarget {
    /// A number that stands for the way to the device: its flow, or the Path that an edge proxy wrote. The edge's own
    /// flow carries many devices.
    package var routeHash: Int { path.isEmpty ? flow.hashValue : path.hashValue }
}
