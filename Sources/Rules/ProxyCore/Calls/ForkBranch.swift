package import Addressing
package import Collections
package import PushDelivery
import Registration
package import SIPGrammar
package import SIPTransactions

/// One target of a fork. Its fork alone changes it.
package struct ForkBranch: Sendable {
    package enum State: Hashable, Sendable {
        /// The request has not been sent yet. Next: `waiting`, `resolving`, `calling`, `ended`.
        case unsent
        /// An earlier run has left it under way, and may have cancelled it. Next: any other but `unsent`.
        case resumed(cancelled: Fork.CancelReason?)
        /// Waits for its device to register or to show life. Next: `resolving`, `calling` when it did, `ended`.
        case waiting
        /// Its next hop is being looked up. Next: `calling`, `cancelled` for an INVITE that an earlier run has cancelled, `ended`.
        case resolving(ResolutionTicket, cancelled: Fork.CancelReason?)
        /// The request was sent in this client transaction. Next: `silent`, `takingBack`, `cancelled`, `ended`; `waiting` when its
        /// device has moved, or its connection has ended.
        case calling(ClientTransactionID)
        /// The device met the request twice and refused the later one. This is the earlier one, which is being taken back: the
        /// request is sent once more when that is over. Next: `waiting`, `cancelled`, `ended`.
        case takingBack(ClientTransactionID)
        /// The request was sent and nothing came back: the device may sleep, and the branch waits for it. The transaction goes
        /// on. Next: `calling` when its device speaks, `waiting` when the device has moved, `ended`.
        case silent(ClientTransactionID)
        /// Its request is cancelled: it ends with the final response. Next: `ended`.
        case cancelled(ClientTransactionID, Fork.CancelReason)
        case ended(End)
    }

    package enum End: Hashable, Sendable {
        case succeeded
        case failed(Status)
        /// It failed with a status made up here: there was no answer, or no way to the phone.
        case gaveUp(Status)
        case silent
        case cancelled(Fork.CancelReason)
    }

    /// How far its push has come.
    private enum Waking: UInt8 {
        /// No push has left, or its provider has refused it.
        case none
        /// A push has left for its provider.
        case left
        /// Its provider has taken the push: the phone may ring.
        case taken
    }

    /// What its device has said of the call, by 180 or more other than 408 and 503 (reading A21).
    private enum Knowledge: UInt8 {
        case none
        /// It has said so before its present record began.
        case before
        case sinceRecord
    }

    // What is small stands together: many calls are kept.
    package private(set) var state = State.unsent
    private var waking = Waking.none
    private var knowledge = Knowledge.none
    /// It was sent more than once, because the device moved.
    package private(set) var hasMoved = false
    /// How often the device met it twice.
    private var loops: UInt8 = 0
    /// Something has come back for it since it was sent for the first time or was recalled, be it a 100.
    package private(set) var wasHeard = false
    /// Whether it is found by its device, see ``CalledDevices``.
    package private(set) var isListed = false
    /// Its ``news`` as the store has them.
    private var written: UInt8 = 0
    /// The binding it stands for; `nil` for the upstream and for next hops inside a dialog.
    @Packed package private(set) var device: DeviceID?
    /// The push that is under way for it.
    @Packed package private(set) var push: PushID?
    /// Its record in the timeline, until that knows the branch's end.
    @Packed package private(set) var record: RecordID?
    /// A branch that waits has sent nothing yet.
    private var course = Rare<Course>()

    private struct Course: Sendable {
        var flow: Flow?
        @Packed var contact: DeviceID?
        @Packed var way: Int?
        var former: [ClientTransactionID] = []
    }

    /// A branch that has not been sent. Without a device it stands for a next hop that is none of our users' devices.
    package init(device: DeviceID?) { self.device = device }

    /// As an earlier run has left it; what was under way has not been sent by this one. The store has it so.
    package init(resuming stored: StoredCall.Branch) {
        device = stored.device
        // A push that has not been accepted is sent once more, but not to a phone that was there already.
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

    /// The contact that it was sent to instead: of a device that had only been reported, and whose user has registered.
    package var contact: DeviceID? { course.value?.contact }

    /// Where the device was registered when the request was sent last: it moves when it registers from elsewhere.
    package var way: Int? { course.value?.way }

    /// Transactions before the present one that may still speak: the device has moved since.
    package var former: [ClientTransactionID] { course.value?.former ?? [] }

    /// Where the request was sent last.
    package var flow: Flow? { course.value?.flow }

    /// Why it ended, or will: a branch that is cancelled ends with its final response.
    package var end: End? { if case .ended(let end) = state { end } else { cancellation.map { .cancelled($0) } } }

    private var cancellation: Fork.CancelReason? {
        switch state {
        case .resumed(let reason), .resolving(_, let reason): reason
        case .cancelled(_, let reason): reason
        case .unsent, .waiting, .calling, .takingBack, .silent, .ended: nil
        }
    }

    package var isEnded: Bool { if case .ended = state { true } else { false } }

    /// Whether its device is waited for.
    package var isWaiting: Bool {
        switch state {
        case .waiting, .silent: true
        case .unsent, .resumed, .resolving, .calling, .takingBack, .cancelled, .ended: false
        }
    }

    /// The transaction of the request that was sent last and has no final response.
    package var client: ClientTransactionID? {
        switch state {
        case .calling(let client), .takingBack(let client), .silent(let client), .cancelled(let client, _): client
        case .unsent, .resumed, .waiting, .resolving, .ended: nil
        }
    }

    /// Its request is under way, and its device is not waited for.
    package var isUnderWay: Bool { client != nil && !isWaiting }

    /// The same, in that transaction.
    func isUnderWay(by client: ClientTransactionID) -> Bool { self.client == client && !isWaiting }

    /// Whether it waits for the answer to that look-up.
    func isResolving(_ ticket: ResolutionTicket) -> Bool {
        if case .resolving(ticket, _) = state { true } else { false }
    }

    /// A push has left for its provider.
    package var wasPushed: Bool { waking != .none }
    /// Its provider has taken the push: the phone may ring.
    package var wasWoken: Bool { waking == .taken }

    /// The device answered 180 or more, other than 408 and 503: it knows of the call (reading A21).
    package var deviceKnows: Bool { knowledge != .none }
    /// It did so since its record has begun.
    package var hasRung: Bool { knowledge == .sinceRecord }

    /// Whether it stands for that binding, or was sent to it.
    package func isOf(_ binding: DeviceID) -> Bool { device == binding || contact == binding }

    /// Whose flow the request goes to.
    package var addressee: DeviceID? { contact ?? device }

    /// Whether that contact, which can be reached there now, has the request from this branch: it went there, or was
    /// answered already.
    package func hasReached(_ binding: DeviceID, by present: Int) -> Bool {
        guard isOf(binding) else { return false }
        if deviceKnows { return true }
        if case .gaveUp = end { return false }
        return way == present
    }

    // MARK: On its way

    /// It has not been sent, and begins to wait for its device.
    mutating func waits() { state = .waiting }

    /// The request is sent to a device where it is registered now.
    mutating func aimed(way: Int) { if self.way != way { course.change(orNew: Course()) { $0.way = way } } }

    /// The request goes to a contact of the user instead of the branch's own device.
    mutating func diverted(to contact: DeviceID) { course.change(orNew: Course()) { $0.contact = contact } }

    /// Its own device is there: the request goes to it after all.
    mutating func deviceCame() { if contact != nil { course.change(orNew: Course()) { $0.contact = nil } } }

    /// The device has another number from now on: it lost the binding whose number it had.
    mutating func renamed(_ old: DeviceID, to heir: DeviceID) {
        if device == old { device = heir }
        if contact == old { diverted(to: heir) }
    }

    /// Its next hop is being looked up.
    mutating func resolving(_ ticket: ResolutionTicket) { state = .resolving(ticket, cancelled: cancellation) }

    /// The request was sent. One that an earlier run has cancelled stays cancelled.
    mutating func sent(as client: ClientTransactionID, on flow: Flow) {
        state = cancellation.map { .cancelled(client, $0) } ?? .calling(client)
        if self.flow != flow { course.change(orNew: Course()) { $0.flow = flow } }
    }

    /// Nothing has come back for the request.
    mutating func fellSilent() { if case .calling(let client) = state { state = .silent(client) } }

    /// A transaction of the branch had a response. A device that was silent is there after all when it is the present one.
    mutating func heard(_ client: ClientTransactionID) {
        wasHeard = true
        if state == .silent(client) { state = .calling(client) }
    }

    /// The device answered 180 or more.
    mutating func deviceSpoke() { knowledge = .sinceRecord }

    // MARK: Away again

    /// It waits for its device again. If a 2xx of its transaction comes, it still counts.
    mutating func recalled() {
        guard let client else { return }
        becomesFormer(client)
        hasMoved = true
        wasHeard = false
        state = .waiting
    }

    /// What to do about a 482 of a device that has the request from two transactions.
    package enum Loop: Hashable, Sendable {
        /// The device rings by this transaction, which is taken back; when it is over, the request is sent again.
        case takeBack(ClientTransactionID)
        /// The other transaction is over: the request is sent again at once.
        case repeatNow
        /// The 482 means something else, or was said too often.
        case isFinal
    }

    /// The device met the request twice, and has refused the later one.
    mutating func loopReported() -> Loop {
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

    /// The device has answered a transaction, which may be the one that is taken back: of several former transactions nobody
    /// knows by which the device got the request, until it says so.
    ///
    /// - Returns: whether one was taken back; the branch waits for its device then.
    mutating func takenBack(_ client: ClientTransactionID) -> Bool {
        guard case .takingBack(let present) = state else { return false }
        if present != client { becomesFormer(present) }
        state = .waiting
        return true
    }

    private mutating func becomesFormer(_ client: ClientTransactionID) {
        course.change(orNew: Course()) { $0.former.append(client) }
    }

    /// A former transaction says nothing more.
    mutating func formerEnded(_ client: ClientTransactionID) {
        if former.contains(client) { course.change(orNew: Course()) { $0.former.removeAll { $0 == client } } }
    }

    // MARK: Its end

    /// Its request is to be cancelled, or it is over if it has none under way.
    ///
    /// - Returns: what was under way, and whether the device was waited for.
    mutating func cancelled(_ reason: Fork.CancelReason) -> (client: ClientTransactionID?, wasWaiting: Bool) {
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

    /// It is over. One that was cancelled has ended for that reason.
    mutating func ended(_ end: End) {
        if case .silent(let client) = state { becomesFormer(client) }
        state = .ended(cancellation.map { .cancelled($0) } ?? end)
    }

    /// It ended without any response that may be passed on.
    mutating func silenced() { state = .ended(.silent) }

    /// Its device has answered the call with a 2xx, in that transaction. Where the caller has a refusal, that stays the branch's end.
    mutating func succeeded(by client: ClientTransactionID?, isRefused: Bool) {
        state = .ended(isRefused ? end ?? .silent : .succeeded)
        if let client { formerEnded(client) }
    }

    /// It was cancelled, and is not waited for any more. A 2xx of its transaction still counts.
    ///
    /// - Returns: whether it was cancelled.
    mutating func abandoned() -> Bool {
        guard case .cancelled(let client, let reason) = state else { return false }
        becomesFormer(client)
        state = .ended(.cancelled(reason))
        return true
    }

    // MARK: Its push, its record, its place among the called devices and in the store

    mutating func pushAsked(_ push: PushID) { self.push = push }

    /// The push is on its way to the provider.
    mutating func pushLeft() { if waking == .none { waking = .left } }

    /// The provider has refused the push, which counts as not sent. It may be tried again.
    mutating func pushRefused() { if waking == .left { waking = .none } }

    /// The provider has taken the push: the phone may ring by it, also when the branch did not wait for it any more.
    mutating func pushTaken() { waking = .taken }

    /// Its push is over, or is not needed any more.
    ///
    /// - Returns: the push, if one was under way.
    mutating func takePush() -> PushID? {
        defer { push = nil }
        return push
    }

    /// A record begins. What the device has said before belongs to the one before.
    mutating func recorded(as record: RecordID) {
        self.record = record
        if knowledge == .sinceRecord { knowledge = .before }
    }

    /// The record is about to learn how the branch ended, and is not the branch's any more.
    mutating func takeRecord() -> RecordID? {
        defer { record = nil }
        return record
    }

    mutating func wasListed() { isListed = true }

    mutating func wasUnlisted() { isListed = false }

    /// The store has it as it is now.
    mutating func wasWritten() { written = news }

    /// Whether the store has it as it was.
    var hasNews: Bool { written != news }

    /// Whatever of it changes what is written, in a few bits.
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
            // A phone may answer after its branch was given up or cancelled.
            | (end == .succeeded ? 128 : 0)
    }

    /// As the store and operators see it.
    var stage: StoredCall.Branch.Stage {
        switch state {
        case .waiting: .waiting
        case .unsent, .resumed, .resolving, .calling, .takingBack, .silent, .cancelled: .called
        case .ended: .ended
        }
    }
}

extension ForkTarget {
    /// Stands for the way to the device: its flow, or the path that an edge proxy wrote, whose own flow says nothing.
    package var way: Int { path.isEmpty ? flow.hashValue : path.hashValue }
}
