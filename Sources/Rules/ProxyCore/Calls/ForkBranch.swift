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
        /// Waits for its device to register or to show life. Next: `resolving`, `calling` when it did, `ended`.
        case waiting
        /// Its next hop is being looked up. Next: `calling`, `ended`.
        case resolving(ResolutionTicket)
        /// The request was sent in this client transaction. Next: `silent`, `ended`; `waiting` when its device has moved, or
        /// its connection has ended.
        case calling(ClientTransactionID)
        /// The request was sent and nothing came back: the device may sleep, and the branch waits for it. The transaction goes
        /// on. Next: `calling` when its device speaks, `waiting` when the device has moved, `ended`.
        case silent(ClientTransactionID)
        case ended
    }

    // What is small stands together: many calls are kept.
    package internal(set) var state = State.unsent
    /// The device met the request twice and refused the later one. The present transaction is the earlier one again, which
    /// is being taken back: the request is sent once more when that is over.
    var isToRepeat = false
    /// It was sent more than once, because the device moved.
    package internal(set) var hasMoved = false
    /// How often the device met it twice.
    var meetings: UInt8 = 0
    /// Its ``journalState`` as the store has it.
    package internal(set) var journalled: UInt8 = 0
    /// Whether it is found by its device, see ``CalledDevices``.
    package internal(set) var isListed = false
    /// Its present transaction had a response, be it a 100.
    package internal(set) var wasHeard = false
    /// A push has left for its provider.
    package internal(set) var wasPushed = false
    /// Its provider has taken the push: the phone may ring.
    package internal(set) var wasWoken = false
    /// The device answered 180 or more, other than 408 and 503: it knows of the call (reading A21).
    package internal(set) var deviceKnows = false
    /// It did so since its record has begun.
    package internal(set) var hasRung = false
    /// Why it ended, or will: a branch that is cancelled ends with its final response.
    package internal(set) var end: End?
    /// The binding it stands for; `nil` for the upstream and for next hops inside a dialog.
    @Packed package private(set) var device: DeviceID?
    /// The push that is under way for it.
    @Packed package internal(set) var push: PushID?
    /// Its record in the timeline, until that knows the branch's end.
    @Packed package internal(set) var record: RecordID?
    /// A branch that waits has sent nothing yet.
    private var course = Rare<Course>()

    private struct Course: Sendable {
        var flow: Flow?
        @Packed var contact: DeviceID?
        @Packed var way: Int?
        var former: [ClientTransactionID] = []
    }

    /// The contact that it was sent to instead: of a device that had only been reported, and whose user has registered.
    package internal(set) var contact: DeviceID? {
        get { course.value?.contact }
        set { if contact != newValue { course.change(orNew: Course()) { $0.contact = newValue } } }
    }

    /// Where the device was registered when the request was sent last: it moves when it registers from elsewhere.
    package internal(set) var way: Int? {
        get { course.value?.way }
        set { if way != newValue { course.change(orNew: Course()) { $0.way = newValue } } }
    }

    /// Transactions before the present one that may still speak: the device has moved since.
    package internal(set) var former: [ClientTransactionID] {
        get { course.value?.former ?? [] }
        set { if former != newValue { course.change(orNew: Course()) { $0.former = newValue } } }
    }

    /// Where the request was sent last.
    package internal(set) var flow: Flow? {
        get { course.value?.flow }
        set { if flow != newValue { course.change(orNew: Course()) { $0.flow = newValue } } }
    }

    package enum End: Hashable, Sendable {
        case succeeded
        case failed(Status)
        /// It failed with a status made up here: there was no answer, or no way to the phone.
        case gaveUp(Status)
        case silent
        case cancelled(Fork.CancelReason)
    }

    /// A branch that has not been sent. Without a device it stands for a next hop that is none of our users' devices.
    package init(device: DeviceID?) { self.device = device }

    /// As an earlier run has left it; what was under way has not been sent by this one.
    package init(resuming stored: StoredCall.Branch) {
        device = stored.device
        contact = stored.contact
        // A push that has not been accepted is sent once more, but not to a phone that was there already.
        wasPushed = stored.wasWoken || stored.stage == .called && stored.code != nil
        wasWoken = wasPushed
        deviceKnows = stored.deviceKnows
        hasMoved = stored.hasMoved
        end = stored.end
        if stored.stage == .ended { state = .ended }
    }

    mutating func renamed(_ old: DeviceID, to heir: DeviceID) {
        if device == old { device = heir }
        if contact == old { contact = heir }
    }

    /// Whether its device is waited for.
    package var isWaiting: Bool {
        switch state {
        case .waiting, .silent: true
        case .unsent, .resolving, .calling, .ended: false
        }
    }

    /// The transaction of the request that was sent last and has no final response.
    package var client: ClientTransactionID? {
        switch state {
        case .calling(let client), .silent(let client): client
        case .unsent, .waiting, .resolving, .ended: nil
        }
    }
    package var isEnded: Bool { state == .ended }

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
}

extension ForkTarget {
    /// Stands for the way to the device: its flow, or the path that an edge proxy wrote, whose own flow says nothing.
    package var way: Int { path.isEmpty ? flow.hashValue : path.hashValue }
}
