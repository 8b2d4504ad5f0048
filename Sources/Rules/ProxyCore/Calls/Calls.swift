import Addressing
import Bytes
import Collections
import PushDelivery
import Registration
import SIPGrammar
import SIPTransactions
import Timekeeping

/// A request that is being proxied, with all that is kept of it: the response context of RFC 3261 section 16.7.
///
/// A class, so that the engine's chapters change it in place. ``Calls`` owns it. Many are kept, so it is packed, and its properties
/// stand in an order that leaves no gaps.
final class Call {
    /// What the request is beside others, and what follows from its end.
    enum Matter {
        /// A request that is only passed on.
        case plain
        /// An INVITE of a phone, to the upstream.
        case outgoing(OutgoingCall)
        /// An INVITE to one of our users.
        case offer(Offer)
        /// A message that was kept, on its way to one device.
        case delivery(MessageDelivery)
        /// A request inside a dialog whose phone can be woken.
        case dialog(DialogRequest)
    }

    let id: ForkID
    /// Where ``Calls`` has it.
    let place: UInt32
    /// When the wait for devices ends.
    var deadline = DeadlineID.none
    /// What it counts for until its request is dropped.
    fileprivate(set) var claim = HeldShares.Claim()
    /// It came from a trusted peer.
    let isTrusted: Bool
    /// The call is over, and what its last transactions say changes nothing any more.
    fileprivate(set) var isForgotten = false
    var fork: Fork
    /// Who waits for the answer; `nil` for a message that was kept and is on its way to one device.
    @Packed private(set) var server: ServerTransactionID?
    var matter: Matter
    /// Where the request came from.
    let source: Flow
    /// What each of its branches may have of the request's Max-Breadth (RFC 5393).
    let breadth: UInt16
    /// The bucket was told of so many devices that know of it.
    var toldKnowing: UInt8 = 0
    /// The bucket was told of the answer.
    var wasAnswered = false
    /// Whether the store has it.
    var journalling = Journalling.off
    private var shownUser = Rare<AddressOfRecord>()
    /// The request's bytes, for branches that start later and for our own final response; dropped with the final.
    fileprivate(set) var request: KeptRequest
    /// The request as it was read, of the calls that came last; the others are read again from their bytes.
    fileprivate(set) var recent: SIPRequest?
    /// What the caller's CANCEL gave as its Reason.
    var callerReasons: [ByteString] = []

    init(
        _ id: ForkID, at place: UInt32, _ incoming: IncomingRequest, _ server: ServerTransactionID?,
        _ fork: Fork, matter: Matter
    ) {
        self.id = id
        self.place = place
        self.matter = matter
        self.fork = fork
        source = incoming.flow
        isTrusted = incoming.isTrusted
        request = KeptRequest(incoming.request.frame.bytes)
        breadth = UInt16(clamping: max(1, Breadth.share(of: incoming.request, among: fork.branches.count)))
        self.server = server
        if let sender = incoming.sender { shownUser.change(orNew: sender.compacted()) { _ in } }
    }

    /// The user who has shown a password for it.
    var sender: AddressOfRecord? { shownUser.value }

    /// Set for an INVITE to one of our users.
    var offer: Offer? { if case .offer(let offer) = matter { offer } else { nil } }
    var outgoing: OutgoingCall? { if case .outgoing(let outgoing) = matter { outgoing } else { nil } }
    var delivery: MessageDelivery? { if case .delivery(let delivery) = matter { delivery } else { nil } }
    var dialogRequest: DialogRequest? { if case .dialog(let request) = matter { request } else { nil } }
}

/// What the store has of a call, see ``CallJournal``.
enum Journalling: Equatable, Sendable {
    case off
    /// It is written, or about to be.
    case open
    /// It is kept for so many answers, see ``AnsweredCalls``; those of several phones may cross.
    case answered(UInt8)
}

/// An INVITE for one of our users, from its arrival to its end.
///
/// A class because the call, its branches, its records and what follows its end all hold it.
final class Offer: Sendable {
    let ref: CallRef
    let key: OfferKey
    let receivedAt: UnixTime
    /// When a push for it is worth nothing any more: the end of the hold (A12, A26).
    let pushDeadline: UnixTime
    /// The end of the hold by the monotonic clock.
    let holdUntil: Instant
    /// Who answers for it.
    let caller: Caller
    /// Whether its caller may have phones woken (T11.2).
    let mayPush: Bool

    var aor: AddressOfRecord { key.aor }

    init(
        ref: CallRef, key: OfferKey, receivedAt: UnixTime, pushDeadline: UnixTime, holdUntil: Instant, caller: Caller,
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

/// What is known of an INVITE of a phone to the upstream beside the request.
final class OutgoingCall {
    let since: Instant
    /// The upstream has said more than 100.
    var isHeard = false
    var isCounted = false

    init(since: Instant) { self.since = since }
}

/// What makes two INVITEs the same call for one user: a caller's fork that arrives twice (RFC 3261 section 8.2.2.2).
///
/// It outlives the INVITE, so its texts have a block of their own.
struct OfferKey: Equatable {
    let hash: UInt32
    let aor: AddressOfRecord
    let callID: ByteString
    let fromTag: ByteString

    init(aor: AddressOfRecord, callID: ByteString, fromTag: ByteString) {
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

/// All requests that are being proxied, and by what they are found: their number, the server transaction that they answer,
/// the devices they are offered to, and what makes them the same call.
struct Calls: ~Copyable {
    /// Calls that were answered, until they need not be kept for another run of the program any more.
    var answered = AnsweredCalls()
    /// Callers of an earlier run whose connections ended with it.
    var away = AwayCallers()
    private var calls: [Call?] = []
    private var vacant: [UInt32] = []
    /// By the server transaction until that ends, since a CANCEL names the transaction.
    private var byServer = TransactionNotes<ServerTransactionID, Call>()
    private var offers = SlotIndex()
    /// The devices that calls are offered to.
    var devices = CalledDevices()
    private(set) var shares = HeldShares()
    var limits: HeldShares.Limits
    /// Calls that are over, for phones that were woken for them and have not come.
    var ended = EndedCalls()
    private var lastID: UInt64 = 0
    /// The calls whose requests are kept as they were read. Most phones wake within a few seconds, and to read an INVITE
    /// again costs nearly as much as to send it; but it takes nearly as much memory as all else of a waiting call. So what
    /// has waited longer is packed.
    private var recent = Queue<(place: UInt32, id: ForkID)>()
    private static let recentLimit = 1024
    private var packer: RequestPacker

    init(packing: RequestPacking, limits: HeldShares.Limits) {
        packer = RequestPacker(packing)
        self.limits = limits
    }

    var count: Int { calls.count - vacant.count }
    /// INVITEs for our users without a final response.
    var offered: Int { offers.count }
    /// Bytes of requests that are kept.
    var bytes: Int { shares.all.bytes + ended.bytes }

    /// For operators alone: it looks at all calls.
    subscript(id: ForkID) -> Call? { calls.first { $0?.id == id } ?? nil }

    /// The call at a place of ``Call/place``.
    func call(at place: UInt32) -> Call? { calls[Int(place)] }

    func call(of server: ServerTransactionID) -> Call? { byServer[server] }

    func isOffered(_ key: OfferKey) -> Bool { place(of: key) != nil }

    private func place(of key: OfferKey) -> UInt32? {
        offers.find(hash: key.hash) { calls[Int($0)]?.offer?.key == key }
    }

    // MARK: Beginning and end

    /// A call of an earlier run goes on as it was left. It keeps its number; later ones get higher ones.
    mutating func resume(
        _ stored: StoredCall, _ incoming: IncomingRequest, _ server: ServerTransactionID, offer: Offer?,
        parties: HeldShares.Parties
    ) -> Call {
        let last = lastID
        lastID = stored.id &- 1
        defer { lastID = max(last, stored.id) }
        let call = begin(
            incoming, server, Fork(resuming: stored), matter: offer.map { .offer($0) } ?? .plain, parties: parties)
        call.journalling = .open
        return call
    }

    /// Begins to keep a request.
    mutating func begin(
        _ incoming: IncomingRequest, _ server: ServerTransactionID?, branches: [ForkBranch],
        matter: Call.Matter = .plain, parties: HeldShares.Parties = .nobody
    ) -> Call {
        let fork = Fork(isInvite: incoming.request.method == .invite, branches: branches)
        return begin(incoming, server, fork, matter: matter, parties: parties)
    }

    private mutating func begin(
        _ incoming: IncomingRequest, _ server: ServerTransactionID?, _ fork: Fork, matter: Call.Matter,
        parties: HeldShares.Parties
    ) -> Call {
        lastID &+= 1
        let place = vacant.popLast() ?? UInt32(truncatingIfNeeded: calls.count)
        let call = Call(ForkID(lastID), at: place, incoming, server, fork, matter: matter)
        call.claim = shares.take(call.share, for: parties)
        if Int(place) == calls.count { calls.append(call) } else { calls[Int(place)] = call }
        if let server { byServer[server] = call }
        if let offer = call.offer {
            offers.insert(hash: offer.key.hash, slot: place)
            keepAsRead(incoming.request, of: call)
        } else {
            call.request.compact()
        }
        return call
    }

    private mutating func keepAsRead(_ request: SIPRequest, of call: Call) {
        call.recent = request
        recent.append((call.place, call.id))
        guard recent.count > Self.recentLimit, let oldest = recent.popFirst() else { return }
        // Its place may be another's by now.
        guard let call = calls[Int(oldest.place)], call.id == oldest.id else { return }
        call.recent = nil
        packer.pack(&call.request)
    }

    /// The final response is on its way: the request's bytes are not needed any more, and the user may be called anew.
    mutating func finish(_ call: Call) {
        // It may be told again when a CANCEL comes late: the same call may be offered anew by then.
        guard !call.isForgotten else { return }
        if let offer = call.offer { offers.remove(hash: offer.key.hash, slot: call.place) }
        if !call.request.isEmpty {
            shares.giveBack(call.share, of: call.claim)
            call.request = .empty
            call.recent = nil
        }
        forgetIfDone(call)
    }

    mutating func serverEnded(_ server: ServerTransactionID) {
        guard let call = byServer.take(server) else { return }
        forgetIfDone(call)
    }

    /// A call is kept until nothing can refer to it: its branches are over and so are its transactions.
    mutating func forgetIfDone(_ call: Call) {
        guard !call.isForgotten, call.fork.phase == .ended,
            call.server.map({ byServer[$0] == nil }) ?? true
        else { return }
        call.isForgotten = true
        calls[Int(call.place)] = nil
        vacant.append(call.place)
    }

    // MARK: Devices

    /// From now on the branch is found by its device.
    mutating func list(_ branch: Int, of call: Call) {
        guard let device = call.fork.branches[branch].device else { return }
        call.fork.wasListed(branch)
        devices.add(call, to: device)
    }

    /// Branches that are over are not looked for any more.
    mutating func unlistEnded(_ call: Call) {
        for index in call.fork.branches.indices {
            guard call.fork.branches[index].isEnded, call.fork.branches[index].isListed else { continue }
            call.fork.wasUnlisted(index)
            let branch = call.fork.branches[index]
            for case let device? in [branch.device, branch.contact]
            where !call.fork.branches.contains(where: { $0.isOf(device) && !$0.isEnded }) {
                devices.remove(call, of: device)
            }
        }
    }

    // MARK: For operators

    /// Some of the calls that match, in no order.
    func offered(where isAsked: (OfferKey, Call) -> Bool) -> [Call] {
        calls.compactMap { call in
            guard let call, let offer = call.offer, !call.request.isEmpty else { return nil }
            return isAsked(offer.key, call) ? call : nil
        }
    }

    /// The oldest calls after this number, in their order.
    ///
    /// Twice the page is gathered before the upper half goes: a millisecond for 200,000 calls.
    func page(after id: UInt64, limit: Int) -> [Call] {
        var page: [Call] = []
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

extension Call {
    /// What it holds while its request is kept.
    fileprivate var share: HeldShares.Share { HeldShares.Share(calls: fork.isInvite ? 1 : 0, bytes: request.count) }
}
