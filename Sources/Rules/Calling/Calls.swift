package import Addressing
package import Bytes
package import Collections
package import PushDelivery
package import Registration
package import Routing
package import SIPGrammar
package import SIPTransactions
package import Timekeeping

/// A request that is being proxied, with its state: the response context of RFC 3261 section 16.7.
///
/// ``Calls`` owns all calls. A call is a class, so that the engine's extensions change it in place. Many calls are
/// kept, so the properties are packed, in an order that leaves no gaps.
package final class ProxiedRequest {
    /// The kind of request, with the state that only this kind has.
    package enum Purpose {
        /// A request that the proxy only passes on.
        case plain
        /// An INVITE from a phone to the upstream.
        case outgoing(OutgoingCall)
        /// An INVITE to one of our users.
        case userCall(UserCall)
        /// A stored message that is being sent to one device.
        case delivery(MessageDelivery)
        /// A request inside a dialog, to a phone that a push can wake.
        case dialog(DialogRequest)
    }

    package let id: ForkID
    /// The index of the call in ``Calls``.
    package let place: UInt32
    /// The timer that ends the wait for devices.
    package private(set) var deadline = DeadlineID.none
    /// The shares of caller and callee that count this request. The shares get the amount back when the request's bytes
    /// are dropped.
    fileprivate(set) var claim = HeldShares.Claim()
    /// Whether the request came from a trusted peer.
    package let isTrusted: Bool
    /// The call is over, and events of its last transactions change nothing any more.
    package fileprivate(set) var isForgotten = false
    package var fork: Fork
    /// The transaction that gets the responses; `nil` for a stored message that is being sent to one device.
    @PackedOptional package private(set) var server: ServerTransactionID?
    package private(set) var purpose: Purpose
    /// The flow that the request came on.
    package let source: Flow
    /// The Max-Breadth that each branch may use: a part of the request's (RFC 5393).
    package let breadth: UInt16
    /// How many devices that know of the call were reported to the bucket of missed calls.
    private var toldKnowing: UInt8 = 0
    /// Whether the bucket of missed calls knows that the call was answered.
    package private(set) var wasAnswered = false
    /// Events that the line at the call's end tells, as far as the fork does not keep them.
    package private(set) var marks: CallMarks = []
    /// The status of the final response that the caller got; 0 before that.
    package private(set) var finalStatus: UInt16 = 0
    /// Whether the journal keeps the call.
    package private(set) var journalling = Journalling.off
    private var shownUser = BoxedOptional<AddressOfRecord>()
    /// The request's bytes, for branches that start later and for a final response of our own. Dropped with the final
    /// response.
    package fileprivate(set) var request: KeptRequest
    /// The parsed request. Only the latest calls keep it: the others parse their bytes again.
    package fileprivate(set) var recent: SIPRequest?
    /// The Reason header fields of the caller's CANCEL (RFC 3326).
    package private(set) var callerReasons: [ByteString] = []

    package init(
        _ id: ForkID, at place: UInt32, _ incoming: IncomingRequest, _ server: ServerTransactionID?,
        _ fork: Fork, purpose: Purpose
    ) {
        self.id = id
        self.place = place
        self.purpose = purpose
        self.fork = fork
        source = incoming.flow
        isTrusted = incoming.isTrusted
        request = KeptRequest(incoming.request.frame.bytes)
        breadth = UInt16(clamping: max(1, Breadth.share(of: incoming.request, among: fork.branches.count)))
        self.server = server
        if let sender = incoming.sender { shownUser.change(orNew: sender.compacted()) { _ in } }
    }

    // MARK: What happened

    /// The engine has set this timer for the end of the wait for devices.
    package func waits(until deadline: DeadlineID) { self.deadline = deadline }

    /// - Returns: the timer for the end of the wait, which is no longer needed.
    package func stopsWaiting() -> DeadlineID {
        defer { deadline = .none }
        return deadline
    }

    /// The request turned out to be of this kind.
    package func turned(into purpose: Purpose) { self.purpose = purpose }

    /// Something that the line at the call's end tells.
    package func saw(_ mark: CallMarks) { marks.insert(mark) }

    /// Takes from the journal as much as it has of what the line at the call's end tells. The line of a call whose caller has
    /// the final response was written by the earlier run.
    package func resumed(from stored: StoredCall) {
        if !stored.final.isEmpty || fork.wasAnswered { saw(.told) }
        if stored.branches.contains(where: { $0.stage == .waiting || $0.code != nil }) { saw(.held) }
    }

    /// The caller got this final response. Only the first counts.
    package func answered(with status: Status) { if finalStatus == 0 { finalStatus = status.code } }

    /// The caller's CANCEL gave these reasons.
    package func cancelled(for reasons: [ByteString]) { if !reasons.isEmpty { callerReasons = reasons } }

    /// The journal keeps the call from now on.
    package func journalBegan() { journalling = .open }

    /// The call was answered. The journal keeps the call for this number of answers.
    func journalKeeps(forAnswers count: UInt8) { journalling = .answered(count) }

    /// The call has left the journal, or will never be in it.
    package func journalEnded() { journalling = .off }

    /// News of the call for the bucket of missed calls.
    package enum BucketNews {
        case answered
        /// Devices that know of the call, and perhaps the call's end.
        case knowing(isOver: Bool)
    }

    /// - Returns: the news since the last call of this method; `nil` if there are none, or the bucket knows of the answer.
    package func takeBucketNews() -> BucketNews? {
        guard !wasAnswered else { return nil }
        if fork.isAnswered {
            wasAnswered = true
            return .answered
        }
        let (isOver, knowing) = (fork.phase == .ended, fork.knowingDevices)
        guard isOver || knowing > Int(toldKnowing) else { return nil }
        toldKnowing = UInt8(clamping: knowing)
        return .knowing(isOver: isOver)
    }

    /// The user who has shown a password for the request.
    package var sender: AddressOfRecord? { shownUser.value }

    /// The offer, if the request is an INVITE to one of our users.
    package var userCall: UserCall? { if case .userCall(let userCall) = purpose { userCall } else { nil } }
    package var outgoing: OutgoingCall? { if case .outgoing(let outgoing) = purpose { outgoing } else { nil } }
    package var delivery: MessageDelivery? { if case .delivery(let delivery) = purpose { delivery } else { nil } }
    package var dialogRequest: DialogRequest? { if case .dialog(let request) = purpose { request } else { nil } }
}

/// Whether the journal keeps a call as a ``StoredCall``, and for how long.
package enum Journalling: Equatable, Sendable {
    case off
    /// The call is written, or is about to be.
    case open
    /// The call was answered. The journal keeps the call for this number of answers, see ``AnsweredCalls``: several phones may
    /// answer.
    case answered(UInt8)
}

/// An INVITE for one of our users, from its arrival to its end.
///
/// An offer is a class because the call, its branches, its records and the work after its end share it.
package final class UserCall: Sendable {
    package let ref: CallRef
    package let key: UserCallKey
    package let receivedAt: UnixTime
    /// A push for the call is useless after this time: the end of the hold (A12, A26).
    package let pushDeadline: UnixTime
    /// The end of the hold, by the monotonic clock.
    package let holdUntil: Instant
    /// The caller whose share of the limits the call uses.
    package let caller: Caller
    /// Whether the caller may have phones woken (T11.2).
    package let mayPush: Bool

    package var aor: AddressOfRecord { key.aor }

    package init(
        ref: CallRef, key: UserCallKey, receivedAt: UnixTime, pushDeadline: UnixTime, holdUntil: Instant,
        caller: Caller,
        mayPush: Bool
    ) {
        self.ref = ref
        self.key = key
        self.receivedAt = receivedAt
        self.pushDeadline = pushDeadline
        self.holdUntil = holdUntil
        self.caller = caller
        self.mayPush = mayPush
    }
}

/// State of an INVITE from a phone to the upstream.
package final class OutgoingCall {
    package let since: Instant
    /// The upstream has sent a response of more than 100.
    package private(set) var isHeard = false
    package private(set) var isCounted = false

    package init(since: Instant) { self.since = since }

    /// The upstream has sent a response of more than 100.
    ///
    /// - Returns: whether it is the first.
    package func heard() -> Bool {
        defer { isHeard = true }
        return !isHeard
    }

    /// The call is in the counters now.
    package func counted() { isCounted = true }
}

/// Two INVITEs with equal keys are the same call for one user: the caller's fork arrived twice (RFC 3261 section
/// 8.2.2.2).
///
/// The key outlives the INVITE, so its texts have their own memory block.
package struct UserCallKey: Equatable {
    package let hash: UInt32
    package let aor: AddressOfRecord
    package let callID: ByteString
    package let fromTag: ByteString

    package init(aor: AddressOfRecord, callID: ByteString, fromTag: ByteString) {
        var block = ByteStringWriter(
            capacity: aor.user.count + aor.host.count + callID.count + fromTag.count)
        self.aor = AddressOfRecord(user: block.string(aor.user), host: block.string(aor.host))
        self.callID = block.string(callID)
        self.fromTag = block.string(fromTag)
        var hasher = Hasher()
        hasher.combine(aor)
        hasher.combine(callID)
        hasher.combine(fromTag)
        hash = UInt32(truncatingIfNeeded: hasher.finalize())
    }
}

/// All requests that are being proxied. A call is found by its number, its server transaction, or its ``UserCallKey``.
/// ``WakeDesk`` finds calls by their devices.
package struct Calls: ~Copyable {
    /// Answered calls that are still in the journal for another run of the daemon.
    package var answered = AnsweredCalls()
    /// Callers of an earlier run whose connections ended with that run.
    package var away = AwayCallers()
    private var calls: [ProxiedRequest?] = []
    private var vacant: [UInt32] = []
    /// Calls by server transaction, until the transaction ends: a CANCEL names the transaction.
    private var byServer = TransactionNotes<ServerTransactionID, ProxiedRequest>()
    private var userCalls = SlotIndex()
    package private(set) var shares = HeldShares()
    package private(set) var limits: HeldShares.Limits
    /// Calls that are over, for phones that were woken for them and have not registered yet.
    package var ended = EndedCalls()
    private var lastID: UInt64 = 0
    /// The calls that keep their parsed request. Most phones wake within a few seconds, and parsing an INVITE again
    /// costs nearly as much as sending it. But the parsed request takes nearly as much memory as the rest of a waiting
    /// call. So older calls keep packed bytes only.
    private var recent = Queue<(place: UInt32, id: ForkID)>()
    private static let recentLimit = 1024
    private var packer: RequestPacker

    package init(packing: RequestPacking, limits: HeldShares.Limits) {
        packer = RequestPacker(packing)
        self.limits = limits
    }

    package mutating func limitsChanged(_ limits: HeldShares.Limits) { self.limits = limits }

    package var count: Int { calls.count - vacant.count }
    /// The number of INVITEs to our users without a final response.
    package var offered: Int { userCalls.count }
    /// The number of bytes of requests that are kept.
    package var bytes: Int { shares.all.bytes + ended.bytes }

    /// Finds a call by its number. For operators only: this searches all calls.
    package subscript(id: ForkID) -> ProxiedRequest? { calls.first { $0?.id == id } ?? nil }

    /// The call with that ``ProxiedRequest/place``.
    package func call(at place: UInt32) -> ProxiedRequest? { calls[Int(place)] }

    package func call(of server: ServerTransactionID) -> ProxiedRequest? { byServer[server] }

    package func isOffered(_ key: UserCallKey) -> Bool { place(of: key) != nil }

    private func place(of key: UserCallKey) -> UInt32? {
        userCalls.find(hash: key.hash) { calls[Int($0)]?.userCall?.key == key }
    }

    // MARK: Beginning and end

    /// Continues a call of an earlier run with its state and number. Later calls get higher numbers.
    package mutating func resume(
        _ stored: StoredCall, _ incoming: IncomingRequest, _ server: ServerTransactionID, userCall: UserCall?,
        parties: HeldShares.Parties
    ) -> ProxiedRequest {
        let last = lastID
        lastID = stored.id &- 1
        defer { lastID = max(last, stored.id) }
        let call = begin(
            incoming, server, Fork(resuming: stored), purpose: userCall.map { .userCall($0) } ?? .plain,
            parties: parties)
        call.journalBegan()
        return call
    }

    /// Starts to keep a request.
    package mutating func begin(
        _ incoming: IncomingRequest, _ server: ServerTransactionID?, branches: [ForkBranch],
        purpose: ProxiedRequest.Purpose = .plain, parties: HeldShares.Parties = .nobody
    ) -> ProxiedRequest {
        let fork = Fork(isInvite: incoming.request.method == .invite, branches: branches)
        return begin(incoming, server, fork, purpose: purpose, parties: parties)
    }

    private mutating func begin(
        _ incoming: IncomingRequest, _ server: ServerTransactionID?, _ fork: Fork, purpose: ProxiedRequest.Purpose,
        parties: HeldShares.Parties
    ) -> ProxiedRequest {
        lastID &+= 1
        let place = vacant.popLast() ?? UInt32(truncatingIfNeeded: calls.count)
        let call = ProxiedRequest(ForkID(lastID), at: place, incoming, server, fork, purpose: purpose)
        call.claim = shares.take(call.share, for: parties)
        if Int(place) == calls.count { calls.append(call) } else { calls[Int(place)] = call }
        if let server { byServer[server] = call }
        if let userCall = call.userCall {
            userCalls.insert(hash: userCall.key.hash, slot: place)
            keepAsRead(incoming.request, of: call)
        } else {
            call.request.compact()
        }
        return call
    }

    private mutating func keepAsRead(_ request: SIPRequest, of call: ProxiedRequest) {
        call.recent = request
        recent.append((call.place, call.id))
        guard recent.count > Self.recentLimit, let oldest = recent.popFirst() else { return }
        // Another call may have the place by now.
        guard let call = calls[Int(oldest.place)], call.id == oldest.id else { return }
        call.recent = nil
        packer.pack(&call.request)
    }

    /// The final response was sent: the request's bytes are dropped, and an INVITE with the same ``UserCallKey`` is
    /// accepted again.
    package mutating func finish(_ call: ProxiedRequest) {
        // A late CANCEL may finish a call twice. By then a newer call may have the same key, and must stay listed.
        guard !call.isForgotten else { return }
        if let userCall = call.userCall { userCalls.remove(hash: userCall.key.hash, slot: call.place) }
        if !call.request.isEmpty {
            shares.giveBack(call.share, of: call.claim)
            call.request = .empty
            call.recent = nil
        }
        forgetIfDone(call)
    }

    package mutating func serverEnded(_ server: ServerTransactionID) {
        guard let call = byServer.take(server) else { return }
        forgetIfDone(call)
    }

    /// Forgets a call when nothing can refer to it any more: all its branches and its server transaction are over.
    package mutating func forgetIfDone(_ call: ProxiedRequest) {
        guard !call.isForgotten, call.fork.phase == .ended,
            call.server.map({ byServer[$0] == nil }) ?? true
        else { return }
        call.isForgotten = true
        calls[Int(call.place)] = nil
        vacant.append(call.place)
    }

    // MARK: For operators

    /// The calls for our users that match, in no order.
    package func offered(where matches: (UserCallKey, ProxiedRequest) -> Bool) -> [ProxiedRequest] {
        calls.compactMap { call in
            guard let call, let userCall = call.userCall, !call.request.isEmpty else { return nil }
            return matches(userCall.key, call) ? call : nil
        }
    }

    /// The oldest calls after this number, in order.
    ///
    /// The page is sorted and cut whenever it has twice its size. With 200,000 calls, a page takes one millisecond.
    package func page(after id: UInt64, limit: Int) -> [ProxiedRequest] {
        var page: [ProxiedRequest] = []
        var last = UInt64.max
        let size = min(limit, count)
        for case let call? in calls where call.id.rawValue > id && call.id.rawValue < last {
            page.append(call)
            guard page.count >= 2 * size else { continue }
            page.sort { $0.id.rawValue < $1.id.rawValue }
            page.removeLast(page.count - size)
            last = page.last?.id.rawValue ?? last
        }
        page.sort { $0.id.rawValue < $1.id.rawValue }
        page.removeLast(max(0, page.count - size))
        return page
    }
}

extension ProxiedRequest {
    /// The share that the call takes while its request is kept.
    fileprivate var share: HeldShares.Share { HeldShares.Share(calls: fork.isInvite ? 1 : 0, bytes: request.count) }
}
