package import Addressing
package import Bytes
package import Collections
package import ProxyPolicy
package import PushDelivery
package import Registration
package import Routing
package import SIPGrammar
package import SIPTransactions
package import Timekeeping

/// A request that is being proxied, with its state: the response context of RFC 3261 section 16.7.
///
/// ``ProxiedRequest`` is a class, so that all parts of the engine change one instance. The order of the properties
/// leaves no gaps in memory, because the daemon keeps many calls.
package final class ProxiedRequest {
    /// The kind of a proxied request, with the state that only this kind of request has.
    package enum Purpose {
        /// A request that the daemon proxies without special treatment.
        case plain
        /// An INVITE from a phone to the upstream.
        case outgoing(OutgoingCall)
        /// An INVITE to one of the daemon's users.
        case userCall(UserCall)
        /// The delivery of a stored message to one device.
        case delivery(MessageDelivery)
        /// A request inside a dialog to a phone that a push can wake.
        case dialog(DialogRequest)
    }

    package let id: ForkID
    /// The index of the request's slot in ``Calls``.
    package let place: UInt32
    /// The timer that ends the call's wait for sleeping devices.
    package private(set) var deadline = DeadlineID.none
    /// The slots in ``HeldShares`` that count the request. The request counts until its bytes are dropped.
    fileprivate(set) var claim = HeldShares.Claim()
    /// Whether the request came from a trusted peer.
    package let isTrusted: Bool
    /// Whether the call has ended, so that late events of its transactions are ignored.
    package fileprivate(set) var isForgotten = false
    package var fork: Fork
    /// The server transaction that gets the responses; `nil` for a stored message to one device.
    @PackedOptional package private(set) var server: ServerTransactionID?
    package private(set) var purpose: Purpose
    /// The flow on which the proxied request came.
    package private(set) var source: Flow
    /// The Max-Breadth that each branch sends: a part of the request's Max-Breadth (RFC 5393).
    package let breadth: UInt16
    /// The number of devices that know the call, as last reported to the list of missed calls.
    private var toldKnowing: UInt8 = 0
    /// Whether the list of missed calls knows that the call was answered.
    package private(set) var wasAnswered = false
    /// Events that the last log line of the call contains, and that the fork does not store.
    package private(set) var marks: CallMarks = []
    /// The status of the final response that the caller got; 0 if the caller has no final response yet.
    package private(set) var finalStatus: UInt16 = 0
    /// Whether the call is in the call journal, and until when.
    package private(set) var journalling = Journalling.off
    private var shownUser = BoxedOptional<AddressOfRecord>()
    /// The request's bytes, which later branches and the proxy's final response need; the bytes are dropped after the
    /// final response.
    package fileprivate(set) var request: KeptRequest
    /// The parsed request of a recent call; `nil` for an older call, because its bytes are parsed again when needed.
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

    /// Stores the timer that ends the call's wait for devices.
    package func waits(until deadline: DeadlineID) { self.deadline = deadline }

    /// Removes and returns the timer that ends the call's wait for devices, so that the engine can cancel the timer.
    package func stopsWaiting() -> DeadlineID {
        defer { deadline = .none }
        return deadline
    }

    /// Notes that the sender is now reached on another flow.
    package func moved(to flow: Flow) { source = flow }

    /// Sets the purpose of a request, if the purpose was not known when ``Calls`` stored the request.
    package func turned(into purpose: Purpose) { self.purpose = purpose }

    /// Notes an event for the log line at the end of the call.
    package func saw(_ mark: CallMarks) { marks.insert(mark) }

    /// Restores from the journal the events for the log line at the end of a resumed call.
    ///
    /// A resumed call that already had a final response gets no log line, because the line was written before the
    /// restart.
    package func resumed(from stored: StoredCall) {
        if !stored.final.isEmpty || fork.wasAnswered { saw(.told) }
        if stored.branches.contains(where: { $0.stage == .waiting || $0.code != nil }) { saw(.held) }
    }

    /// Stores the status of the first final response that the caller got.
    package func answered(with status: Status) { if finalStatus == 0 { finalStatus = status.code } }

    /// Stores the Reason values of the caller's CANCEL.
    package func cancelled(for reasons: [ByteString]) { if !reasons.isEmpty { callerReasons = reasons } }

    /// Notes that the call is in the call journal.
    package func journalBegan() { journalling = .open }

    /// Notes that the call was answered. The parameter `count` is the number of answers without an ACK, for which the
    /// journal keeps the call.
    func journalKeeps(forAnswers count: UInt8) { journalling = .answered(count) }

    /// Notes that the call is no longer in the journal, or will never be in the journal.
    package func journalEnded() { journalling = .off }

    /// A change of a call that must also change the devices' lists of missed calls.
    package enum BucketNews {
        case answered
        /// More devices know the call (``ForkBranch/deviceKnows``), or the call has ended (`isOver`).
        case knowing(isOver: Bool)
    }

    /// The change for the lists of missed calls; `nil` if this change was returned before, or if the call was reported
    /// as answered.
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

    /// The authenticated sender of the request.
    package var sender: AddressOfRecord? { shownUser.value }

    /// The data of a call to one of the daemon's users; `nil` for any other request.
    package var userCall: UserCall? { if case .userCall(let userCall) = purpose { userCall } else { nil } }
    package var outgoing: OutgoingCall? { if case .outgoing(let outgoing) = purpose { outgoing } else { nil } }
    package var delivery: MessageDelivery? { if case .delivery(let delivery) = purpose { delivery } else { nil } }
    package var dialogRequest: DialogRequest? { if case .dialog(let request) = purpose { request } else { nil } }
}

/// Whether and until when the journal keeps a call as a ``StoredCall``.
package enum Journalling: Equatable, Sendable {
    case off
    /// The journal keeps the call until its caller has acknowledged the final response.
    case open
    /// The journal keeps the answered call until the given number of answers has an ACK or has timed out: see
    /// ``AnsweredCalls``.
    case answered(UInt8)
}

/// An INVITE for one of the daemon's users, from its arrival to its end.
///
/// ``UserCall`` is a class, because the call, its branches, its timeline records and its missed calls share one
/// instance.
package final class UserCall: Sendable {
    package let ref: CallRef
    package let key: UserCallKey
    package let receivedAt: UnixTime
    /// The time after which a push for the call is useless, because the call has stopped waiting for phones (A12, A26).
    package let pushDeadline: UnixTime
    /// The time, by the monotonic clock, at which the call stops waiting for phones.
    package let holdUntil: Instant
    /// The caller whose rate limits count the call.
    package let caller: Caller
    /// Whether the rate limits allow the caller to wake phones by pushes (T11.2).
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

/// The state of an INVITE that a phone sends to the upstream.
package final class OutgoingCall {
    package let since: Instant
    /// Whether the upstream has sent a response other than 100.
    package private(set) var isHeard = false
    package private(set) var isCounted = false

    package init(since: Instant) { self.since = since }

    /// Notes a response of the upstream other than 100, and returns whether the response is the first.
    package func heard() -> Bool {
        defer { isHeard = true }
        return !isHeard
    }

    /// Notes that the metrics have counted the result of the call.
    package func counted() { isCounted = true }
}

/// The key of a call to one user. If a second INVITE has an equal key, an earlier proxy has forked the call (RFC 3261
/// section 8.2.2.2).
///
/// The strings of a ``UserCallKey`` have their own memory, because the key is kept longer than the INVITE.
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

/// The turns of a call's devices, and the time of the call's INVITE.
package struct CallTurns: Sendable {
    package fileprivate(set) var order: RingTurns
    package let since: Instant
}

/// All requests that are being proxied, each found by its id, its server transaction, or its ``UserCallKey``.
package struct Calls: ~Copyable {
    /// The answered calls in the call journal; the journal keeps them in case the daemon restarts.
    package private(set) var answered = AnsweredCalls()
    /// The calls of trusted peers whose connections ended when the daemon restarted.
    package private(set) var away = AwayCallers()
    private var calls: [ProxiedRequest?] = []
    private var vacant: [UInt32] = []
    /// The calls by their server transactions, by which a CANCEL finds its call. An entry stays until the transaction
    /// ends.
    private var byServer = TransactionNotes<ServerTransactionID, ProxiedRequest>()
    private var userCalls = SlotIndex()
    package private(set) var shares: HeldShares
    package private(set) var limits: HeldShares.Limits
    /// Ended calls, kept for phones that got a push for the call and have not registered yet.
    package private(set) var ended = EndedCalls()
    /// The rules of users for calls, which operators set.
    package var rules = UserRulesTable()
    /// The turns of the devices of each call whose devices do not all ring at the same time.
    private var turns: [ForkID: CallTurns] = [:]
    private var lastID: UInt64 = 0
    /// The latest calls, in the order of their arrival; each of them keeps its parsed request.
    ///
    /// A recent call keeps its parsed INVITE. Most phones wake within seconds, and parsing the INVITE again costs
    /// nearly as much as sending it. An older call keeps only packed bytes, because a parsed request takes as much
    /// memory as all other data of a waiting call.
    private var recent = Queue<(place: UInt32, id: ForkID)>()
    private static let recentLimit = 1024
    private var packer: RequestPacker

    /// Creates an empty list of calls. The parameter `secret` is the secret for the names of accounts in a cluster.
    package init(packing: RequestPacking, limits: HeldShares.Limits, secret: SipHash.Key? = nil) {
        packer = RequestPacker(packing)
        self.limits = limits
        shares = HeldShares(secret: secret)
    }

    package mutating func limitsChanged(_ limits: HeldShares.Limits) { self.limits = limits }

    package var count: Int { calls.count - vacant.count }
    /// The number of INVITEs to the daemon's users that have no final response yet.
    package var offered: Int { userCalls.count }
    /// The size in bytes of all stored requests, including the requests of ended calls.
    package var bytes: Int { shares.all.bytes + ended.bytes }

    /// Finds a call by its id, for operators' commands only, because the search examines all calls.
    package subscript(id: ForkID) -> ProxiedRequest? { calls.first { $0?.id == id } ?? nil }

    /// The call in the slot with the index `place`: see ``ProxiedRequest/place``.
    package func call(at place: UInt32) -> ProxiedRequest? { calls[Int(place)] }

    package func call(of server: ServerTransactionID) -> ProxiedRequest? { byServer[server] }

    package func isOffered(_ key: UserCallKey) -> Bool { place(of: key) != nil }

    private func place(of key: UserCallKey) -> UInt32? {
        userCalls.find(hash: key.hash) { calls[Int($0)]?.userCall?.key == key }
    }

    /// The final response to a call for which no phone rang because of do-not-disturb; `nil` for any other call.
    package func silenceStatus(of call: ProxiedRequest) -> Status? {
        guard call.marks.contains(.notDisturbed), let aor = call.userCall?.aor else { return nil }
        return rules[aor]?.doNotDisturb.map { Status(code: $0.status) }
    }

    // MARK: Limits (T11.3)

    /// Why the daemon cannot hold a request.
    package enum Refusal: Hashable, Sendable {
        /// A copy of the INVITE arrived before, because an earlier proxy forked the INVITE (RFC 3261 section 8.2.2.2).
        case offeredBefore
        /// The number of INVITEs to users has reached `limits.calls`.
        case tooManyCalls
        /// The limits on held requests leave no room for the INVITE.
        case noRoom(HeldShares.Refusal)
    }

    /// Decides whether a request can be held until its final response.
    ///
    /// The limits of the proxy, the caller and the callee apply. ``Calls`` removes the oldest ended calls to make room
    /// for a request.
    ///
    /// - Parameters:
    ///   - size: the number of bytes of the request.
    ///   - key: the key of an INVITE to a user; `nil` for any other request.
    ///   - isInvite: whether the request is an INVITE.
    ///   - parties: the caller and the callee of the request.
    ///   - settings: the limits.
    ///   - now: the present time.
    ///   - drop: a closure that gets the ended calls that were removed to make room.
    /// - Returns: why the request cannot be held; `nil` if the request can be held.
    package mutating func refusal(
        of size: Int, offering key: UserCallKey?, isInvite: Bool, for parties: HeldShares.Parties,
        _ settings: LimitSettings, now: Instant, dropping drop: (EndedCall) -> Void
    ) -> Refusal? {
        if let key {
            if isOffered(key) { return .offeredBefore }
            if offered >= settings.calls { return .tooManyCalls }
        }
        while bytes + size > settings.heldBytes, let oldest = ended.dropOldest() { drop(oldest) }
        return shares.refusal(of: size, isInvite: isInvite, for: parties, limits, now: now).map { .noRoom($0) }
    }

    /// The shares of the largest accounts for the other nodes: see ``HeldShares/takeCounts()``.
    package mutating func takeCounts() -> (counts: [SharedCount], dropped: Int) { shares.takeCounts() }

    /// Notes the shares that other nodes have told.
    package mutating func add(_ told: [SharedCount], now: Instant) { shares.add(told, now: now) }

    // MARK: Beginning and end

    /// The id of the next call.
    package var nextID: UInt64 { lastID &+ 1 }

    /// Continues a call from before the restart with its state and id; later calls get higher ids.
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

    /// Adds a new proxied request, and counts the request for its caller and callee.
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
        if Int(place) == calls.count { calls.append(call) } else { calls[Int(place)] = call }
        if let server { byServer[server] = call }
        if let userCall = call.userCall {
            userCalls.insert(hash: userCall.key.hash, slot: place)
            keepAsRead(incoming.request, of: call)
        } else {
            call.request.compact()
        }
        call.claim = shares.take(call.share, for: parties, limits)
        return call
    }

    private mutating func keepAsRead(_ request: SIPRequest, of call: ProxiedRequest) {
        call.recent = request
        recent.append((call.place, call.id))
        guard recent.count > Self.recentLimit, let oldest = recent.popFirst() else { return }
        // The ids are compared, because a newer call may use the slot of an ended call.
        guard let call = calls[Int(oldest.place)], call.id == oldest.id else { return }
        call.recent = nil
        packer.pack(&call.request)
    }

    /// Drops the request's bytes after the final response; a later INVITE with the same ``UserCallKey`` is a new call.
    package mutating func finish(_ call: ProxiedRequest) {
        // A late CANCEL can finish a call twice, and must not remove a newer call with the same key.
        guard !call.isForgotten else { return }
        if !turns.isEmpty { turns[call.id] = nil }
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

    /// Removes a call whose branches and server transaction have all ended.
    package mutating func forgetIfDone(_ call: ProxiedRequest) {
        guard !call.isForgotten, call.fork.phase == .ended,
            call.server.map({ byServer[$0] == nil }) ?? true
        else { return }
        call.isForgotten = true
        calls[Int(call.place)] = nil
        vacant.append(call.place)
    }

    // MARK: Devices that ring one after the other

    /// Keeps the turns of a call's devices until the call ends; `since` is the time of the INVITE.
    package mutating func takesTurns(_ call: ProxiedRequest, _ order: RingTurns, since: Instant) {
        turns[call.id] = CallTurns(order: order, since: since)
    }

    /// The turns of a call's devices; `nil` if all devices ring at the same time.
    package func turns(of call: ProxiedRequest) -> CallTurns? { turns.isEmpty ? nil : turns[call.id] }

    /// Removes and returns the branches of a call that must begin to ring now. If `isNext` is true, the next group
    /// begins before its time.
    package mutating func takeTurns(of call: ProxiedRequest, isNext: Bool, now: Instant) -> [Int] {
        guard let since = turns[call.id]?.since else { return [] }
        return
            (isNext
            ? turns[call.id]?.order.takeNext(at: now - since) : turns[call.id]?.order.takeDue(at: now - since)) ?? []
    }

    // MARK: Ended calls

    /// Keeps an ended call for phones that got a push for the call and have not registered yet.
    package mutating func keeps(_ call: EndedCall) { ended.append(call) }

    package mutating func dropOldestEnded() -> EndedCall? { ended.dropOldest() }

    // MARK: Callers of the daemon's earlier run

    /// Notes that the caller's connection ended when the daemon restarted.
    package mutating func isAway(callerOf call: ProxiedRequest) { away.add(call) }

    /// Removes and returns the calls of a trusted peer that has connected again.
    package mutating func returned(_ peer: IPAddress) -> [ProxiedRequest] { away.take(of: peer) }

    /// Stops waiting for callers from before the restart to connect again.
    package mutating func callersGivenUp() { away = AwayCallers() }

    // MARK: Answered calls, which the journal keeps

    /// Notes a phone's 2xx to a call: see ``AnsweredCalls/note(_:in:now:)``.
    package mutating func answered(_ call: ProxiedRequest, in dialog: Int, now: Instant) {
        answered.note(call, in: dialog, now: now)
    }

    /// Notes that the ACK of a 2xx has passed through the daemon.
    package mutating func acknowledged(_ dialog: Int, now: Instant) { answered.acknowledged(dialog, now: now) }

    /// Adds a call that was answered before the daemon restarted.
    package mutating func resumeAnswered(_ call: ProxiedRequest, now: Instant) { answered.resume(call, now: now) }

    /// The instant at which a new timer for the call journal must fire; `nil` if no new timer is needed.
    package mutating func journalTimerWanted() -> Instant? { answered.timerWanted() }

    /// Handles a timer for answered calls in the call journal.
    ///
    /// - Returns: false if the timer is out of date.
    package mutating func journalTimerFired(now: Instant) -> Bool { answered.timerFired(now: now) }

    /// Removes and returns a call that the journal need not keep any longer; `nil` if the journal needs all its calls.
    package mutating func popAnswered(now: Instant) -> ProxiedRequest? { answered.popDue(now: now) }

    /// The requests that came on the given flow, in no particular order.
    package func brought(on flow: Flow) -> [ProxiedRequest] { calls.compactMap { $0?.source == flow ? $0 : nil } }

    // MARK: For operators

    /// The calls to the daemon's users for which `matches` returns true, in no particular order.
    package func offered(where matches: (UserCallKey, ProxiedRequest) -> Bool) -> [ProxiedRequest] {
        calls.compactMap { call in
            guard let call, let userCall = call.userCall, !call.request.isEmpty else { return nil }
            return matches(userCall.key, call) ? call : nil
        }
    }

    /// The oldest calls with ids above `id`, in the order of their ids.
    ///
    /// When twice the page size is collected, the method sorts the calls, and drops the calls beyond the page size.
    package func page(
        after id: UInt64, limit: Int, where isWanted: (ProxiedRequest) -> Bool = { _ in true }
    ) -> [ProxiedRequest] {
        var page: [ProxiedRequest] = []
        var last = UInt64.max
        let size = min(limit, count)
        for case let call? in calls where call.id.rawValue > id && call.id.rawValue < last && isWanted(call) {
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
    /// The number of calls and bytes that a stored request adds to the limits of its caller and callee.
    fileprivate var share: HeldShares.Share { HeldShares.Share(calls: fork.isInvite ? 1 : 0, bytes: request.count) }
}
