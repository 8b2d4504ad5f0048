import Addressing
import Bytes
import Collections
import PushDelivery
import Registration
import SIPGrammar
import SIPTransactions
import Timekeeping

/// A request that is being proxied, with all that is kept of it: the response context of RFC 3261 section 16.7. What makes
/// it a call is its ``offer``; a MESSAGE or a request inside a dialog has none.
///
/// A class, so that the engine's chapters change it in place. ``Calls`` owns it.
final class Call {
    let id: ForkID
    /// Where ``Calls`` has it.
    let place: UInt32
    var fork: Fork
    /// Who waits for the answer; `nil` for a message that was kept and is on its way to one device.
    let server: ServerTransactionID?
    /// What became of it is told to that message.
    var delivery: MessageDelivery?
    /// Set for a request inside a dialog whose phone can be woken.
    var dialogRequest: DialogRequest?
    /// Where the request came from.
    let source: Flow
    /// The user who has shown a password for it.
    let sender: AddressOfRecord?
    /// The request's bytes alone, for branches that start later and for our own final response; dropped with the final.
    fileprivate(set) var request: ByteString
    /// The request as it was read, of the calls that came last; the others are read again from their bytes.
    fileprivate(set) var recent: SIPRequest?
    /// Set for an INVITE to one of our users.
    var offer: Offer?
    /// When the wait for devices ends.
    var deadline: DeadlineID?
    /// What it counts for until its request is dropped.
    fileprivate(set) var claim = HeldShares.Claim()
    /// What the caller's CANCEL gave as its Reason.
    var callerReasons: [ByteString] = []
    /// The bucket was told of the answer.
    var wasAnswered = false
    /// The bucket was told of so many devices that know of it.
    var toldKnowing = 0
    /// Whether the store has it.
    var journalling = Journalling.off
    /// It came from a trusted peer.
    let isTrusted: Bool
    /// What each of its branches may have of the request's Max-Breadth (RFC 5393).
    let breadth: UInt32
    /// The call is over, and what its last transactions say changes nothing any more.
    fileprivate(set) var isForgotten = false

    init(
        _ id: ForkID, at place: UInt32, _ incoming: IncomingRequest, _ server: ServerTransactionID?,
        branches: [ForkBranch], offer: Offer?
    ) {
        self.id = id
        self.place = place
        self.server = server
        self.offer = offer
        fork = Fork(isInvite: incoming.request.method == .invite, branches: branches)
        source = incoming.flow
        isTrusted = incoming.isTrusted
        sender = incoming.sender?.compacted()
        request = incoming.request.frame.bytes.compacted()
        breadth = max(1, Breadth.share(of: incoming.request, among: branches.count))
    }
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
    /// Whether its caller may have phones woken (T11.2).
    let mayPush: Bool

    var aor: AddressOfRecord { key.aor }

    init(
        ref: CallRef, key: OfferKey, receivedAt: UnixTime, pushDeadline: UnixTime, holdUntil: Instant, mayPush: Bool
    ) {
        self.ref = ref
        self.key = key
        self.receivedAt = receivedAt
        self.pushDeadline = pushDeadline
        self.holdUntil = holdUntil
        self.mayPush = mayPush
    }
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
    private var calls: [Call?] = []
    private var vacant: [UInt32] = []
    /// By the server transaction until that ends, since a CANCEL names the transaction.
    private var byServer = TransactionNotes<ServerTransactionID, Call>()
    private var offers = SlotIndex()
    /// The devices that calls are offered to.
    var devices = CalledDevices()
    private(set) var shares = HeldShares()
    /// Calls that are over, for phones that were woken for them and have not come.
    var ended = EndedCalls()
    private var lastID: UInt64 = 0
    /// The calls whose requests are kept as they were read. Most phones wake within a few seconds, and to read an INVITE
    /// again costs nearly as much as to send it; but it takes nearly as much memory as all else of a waiting call.
    private var recent = Queue<(place: UInt32, id: ForkID)>()
    private static let recentLimit = 1024

    var count: Int { calls.count - vacant.count }
    /// INVITEs for our users without a final response.
    var offered: Int { offers.count }
    /// Bytes of requests that are kept.
    var bytes: Int { shares.bytes + ended.bytes }

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

    /// A call of an earlier run keeps its number; later ones get higher ones.
    mutating func begin(
        as id: UInt64, _ incoming: IncomingRequest, _ server: ServerTransactionID, offer: Offer?,
        accounts: [HeldShares.Account]
    ) -> Call {
        let last = lastID
        lastID = id &- 1
        defer { lastID = max(last, id) }
        return begin(incoming, server, branches: [], offer: offer, accounts: accounts)
    }

    /// Begins to keep a request.
    mutating func begin(
        _ incoming: IncomingRequest, _ server: ServerTransactionID?, branches: [ForkBranch], offer: Offer? = nil,
        accounts: [HeldShares.Account] = []
    ) -> Call {
        lastID &+= 1
        let place = vacant.popLast() ?? UInt32(truncatingIfNeeded: calls.count)
        let call = Call(ForkID(lastID), at: place, incoming, server, branches: branches, offer: offer)
        call.claim = shares.take(call.share, for: accounts)
        if Int(place) == calls.count { calls.append(call) } else { calls[Int(place)] = call }
        if let server { byServer[server] = call }
        if let offer {
            offers.insert(hash: offer.key.hash, slot: place)
            keepAsRead(incoming.request, of: call)
        }
        return call
    }

    private mutating func keepAsRead(_ request: SIPRequest, of call: Call) {
        call.recent = request
        recent.append((call.place, call.id))
        guard recent.count > Self.recentLimit, let oldest = recent.popFirst() else { return }
        // Its place may be another's by now.
        if let call = calls[Int(oldest.place)], call.id == oldest.id { call.recent = nil }
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
        call.fork.listed(branch, true)
        devices.add(call, to: device)
    }

    /// Branches that are over are not looked for any more.
    mutating func unlistEnded(_ call: Call) {
        for index in call.fork.branches.indices {
            guard call.fork.branches[index].isEnded, call.fork.branches[index].isListed else { continue }
            call.fork.listed(index, false)
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
