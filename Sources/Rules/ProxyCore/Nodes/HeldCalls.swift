import Bytes
import Registration
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

    /// Notes that another node answers an INVITE that came to this node.
    mutating func gaveAway(_ invite: TransactionKey, until end: Instant, now: Instant) {
        givenAway = givenAway.filter { $0.value > now }
        givenAway[invite] = end
    }

    func isGivenAway(_ invite: TransactionKey) -> Bool { !givenAway.isEmpty && givenAway[invite] != nil }
}
