import Addressing
import Collections
import Registration

/// Who answers for a request (T11.2), whatever its From says.
enum Sender: Hashable, Sendable {
    /// A trusted peer. It answers for its callers itself.
    case peer
    /// A user who has shown a password.
    case user(AddressOfRecord)
    /// Whoever sends from that address, where nobody has to prove who he is.
    case address(IPAddress)

    /// The sender of a request while authentication is off.
    static func unknown(at source: Endpoint) -> Sender { .address(source.address.source) }
}

/// How much of what the daemon holds belongs to whom: calls, and the bytes of all requests that wait for an answer (T11.3).
struct HeldShares: ~Copyable, Sendable {
    enum Account: Hashable, Sendable {
        case callee(AddressOfRecord)
        case caller(Sender)
    }

    struct Share: Sendable {
        var calls = 0
        var bytes = 0
    }

    /// The places of the accounts that something counts for.
    struct Claim: Sendable {
        @Packed fileprivate var first: Int32?
        @Packed fileprivate var second: Int32?
    }

    /// INVITEs without a final response, and the bytes of all requests that are held.
    private(set) var calls = 0
    private(set) var bytes = 0
    /// Those that hold anything.
    private var shares = PlacedTable<Account, Share>(empty: Share())

    subscript(account: Account) -> Share { shares[account] ?? Share() }

    /// Of two accounts at most: whoever calls, and whoever is called.
    mutating func take(_ share: Share, for accounts: ShortList<Account>) -> Claim {
        calls += share.calls
        bytes += share.bytes
        var claim = Claim()
        for account in accounts {
            let place = shares.madePlace(of: account)
            shares[place].calls += share.calls
            shares[place].bytes += share.bytes
            let number = Int32(truncatingIfNeeded: place)
            if claim.first == nil { claim.first = number } else { claim.second = number }
        }
        return claim
    }

    mutating func giveBack(_ share: Share, of claim: Claim) {
        calls -= share.calls
        bytes -= share.bytes
        giveBack(share, at: claim.first)
        giveBack(share, at: claim.second)
    }

    private mutating func giveBack(_ share: Share, at number: Int32?) {
        guard let number else { return }
        let place = UInt32(bitPattern: number)
        shares[place].calls -= share.calls
        shares[place].bytes -= share.bytes
        if shares[place].calls <= 0, shares[place].bytes <= 0 { shares.remove(at: place) }
    }
}

extension LimitSettings {
    /// Calls that one account may hold, as caller or as called.
    var accountCalls: Int { callsPerAccount > 0 ? min(callsPerAccount, calls) : min(calls, max(32, calls / 16)) }

    /// Bytes of requests that one account may hold.
    var accountBytes: Int { min(heldBytes, max(1 << 20, heldBytes / 16)) }
}
