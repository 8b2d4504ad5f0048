import Bytes
import Calling
import LocationService
import Registration
import Routing
import SIPTransactions
import Timekeeping

/// The calls of this node that the store has for other nodes, and the calls that other nodes have taken over.
///
/// A node that gave no sign of life for five seconds counts as dead, and another node continues its calls. If the node
/// only stood still, it must not continue the same calls.
struct HeldCalls {
    /// Whether this node stood still, and does not know yet which calls others have taken over.
    var isBehind = false
    private var stored = Set<HeldCallKey>()
    /// The INVITEs whose calls another node continues, and until when their callers can send a CANCEL here.
    private var givenAway: [TransactionKey: Instant] = [:]
    /// The calls of ended nodes that wait until their users are read.
    private var arriving: [TakeoverTicket: HeldInvite] = [:]
    private var lastTicket: UInt64 = 0
    /// The CANCELs whose INVITE this node does not have, by the INVITE. An ended node may have the INVITE.
    private var cancels: [TransactionKey: (cancel: IncomingRequest, until: Instant)] = [:]

    /// The maximum number of CANCELs that wait for their INVITE.
    private static let mostCancels = 1_000

    /// Notes that the store gets an INVITE.
    mutating func stores(_ key: HeldCallKey) { stored.insert(key) }

    /// Notes that the store does not have an INVITE, or that its call has ended.
    mutating func ended(_ key: HeldCallKey) { if !stored.isEmpty { stored.remove(key) } }

    /// Removes and returns the calls that others have taken over: all stored calls which are not among the remaining.
    mutating func takenOver(remaining: Set<HeldCallKey>) -> Set<HeldCallKey> {
        let taken = stored.subtracting(remaining)
        stored.subtract(taken)
        return taken
    }

    /// Keeps the call of an ended node until its user is read.
    mutating func arrives(_ invite: HeldInvite) -> TakeoverTicket {
        lastTicket += 1
        let ticket = TakeoverTicket(lastTicket)
        arriving[ticket] = invite
        return ticket
    }

    /// Removes and returns the call of an ended node whose user has been read.
    mutating func arrived(_ ticket: TakeoverTicket) -> HeldInvite? { arriving.removeValue(forKey: ticket) }

    var hasRoomForCancel: Bool { cancels.count < Self.mostCancels }

    /// Keeps a CANCEL until this node takes over its call.
    mutating func keeps(_ cancel: IncomingRequest, until end: Instant) {
        cancels[TransactionKey(inviteOf: cancel.request)] = (cancel, end)
    }

    /// Removes and returns the CANCEL of a call that this node has taken over.
    mutating func takeCancel(of invite: TransactionKey) -> IncomingRequest? {
        cancels.removeValue(forKey: invite)?.cancel
    }

    /// Removes and returns the CANCELs whose time is over.
    mutating func takeCancels(dueBy now: Instant) -> [IncomingRequest] {
        let due = cancels.filter { $0.value.until <= now }
        for key in due.keys { cancels[key] = nil }
        return due.values.sorted { $0.until < $1.until }.map(\.cancel)
    }

    /// Notes that another node answers an INVITE that came to this node.
    mutating func gaveAway(_ invite: TransactionKey, until end: Instant, now: Instant) {
        givenAway = givenAway.filter { $0.value > now }
        givenAway[invite] = end
    }

    func isGivenAway(_ invite: TransactionKey) -> Bool { !givenAway.isEmpty && givenAway[invite] != nil }
}
