import Addressing
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
    /// Who may cancel a call that another node continues: the address of its INVITE, and the PBXs of its domain.
    struct Caller {
        let address: IPAddress
        let isTrusted: Bool
        let domain: ByteString?
    }

    /// Whether this node stood still, and does not know yet which calls others have taken over.
    var isBehind = false
    private var stored = Set<HeldCallKey>()
    /// The INVITEs whose calls another node continues, and until when their callers can send a CANCEL here.
    private var givenAway: [TransactionKey: (caller: Caller, until: Instant)] = [:]
    /// The calls of ended nodes that wait until their users are read.
    private var arriving: [TakeoverTicket: HeldInvite] = [:]
    private var lastTicket: UInt64 = 0
    /// The CANCELs whose INVITE this node does not have, oldest first. An ended node may have the INVITE.
    private var cancels: [WaitingCancel] = []

    /// A CANCEL that waits for its INVITE. Several senders can name one INVITE, and only its caller may cancel it.
    private struct WaitingCancel {
        let invite: TransactionKey
        let cancel: IncomingRequest
        let until: Instant

        var source: IPAddress { cancel.flow.remote.address }
    }

    /// The maximum number of CANCELs that wait for their INVITE, and the maximum for one address. One PBX cannot take the
    /// places of all others.
    private static let (mostCancels, mostCancelsOfSource) = (1_000, 250)

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

    /// The result of ``keeps(_:until:)``.
    enum CancelPlace {
        case new, repeated, none
    }

    /// Keeps a CANCEL until this node takes over its call. A retransmission finds its place taken.
    mutating func keeps(_ cancel: IncomingRequest, until end: Instant) -> CancelPlace {
        let waiting = WaitingCancel(
            invite: TransactionKey(inviteOf: cancel.request), cancel: cancel, until: end)
        let ofSource = cancels.filter { $0.source == waiting.source }
        if ofSource.contains(where: { $0.invite == waiting.invite }) { return .repeated }
        guard cancels.count < Self.mostCancels, ofSource.count < Self.mostCancelsOfSource else { return .none }
        cancels.append(waiting)
        return .new
    }

    /// Removes and returns the CANCELs for a call that this node has taken over, in the order of their arrival.
    mutating func takeCancels(of invite: TransactionKey) -> [IncomingRequest] {
        guard !cancels.isEmpty else { return [] }
        defer { cancels.removeAll { $0.invite == invite } }
        return cancels.filter { $0.invite == invite }.map(\.cancel)
    }

    /// Removes and returns the CANCELs whose time is over, in the order of their arrival.
    mutating func takeCancels(dueBy now: Instant) -> [IncomingRequest] {
        defer { cancels.removeAll { $0.until <= now } }
        return cancels.filter { $0.until <= now }.map(\.cancel)
    }

    /// Notes that another node answers an INVITE that came to this node.
    mutating func gaveAway(_ invite: TransactionKey, of caller: Caller, until end: Instant, now: Instant) {
        givenAway = givenAway.filter { $0.value.until > now }
        givenAway[invite] = (caller, end)
    }

    /// The caller of an INVITE whose call another node continues; `nil` for other INVITEs.
    func callerGivenAway(_ invite: TransactionKey) -> Caller? { givenAway.isEmpty ? nil : givenAway[invite]?.caller }

    func isGivenAway(_ invite: TransactionKey) -> Bool { !givenAway.isEmpty && givenAway[invite] != nil }
}
