import Addressing
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

    /// Bytes of all requests that are held.
    private(set) var bytes = 0
    /// Those that hold anything.
    private var shares: [Account: Share] = [:]

    subscript(account: Account) -> Share { shares[account] ?? Share() }

    mutating func take(_ share: Share, for accounts: [Account]) {
        bytes += share.bytes
        for account in accounts {
            shares[account, default: Share()].calls += share.calls
            shares[account, default: Share()].bytes += share.bytes
        }
    }

    mutating func giveBack(_ share: Share, for accounts: [Account]) {
        bytes -= share.bytes
        for account in accounts {
            guard var held = shares[account] else { continue }
            held.calls -= share.calls
            held.bytes -= share.bytes
            shares[account] = held.calls <= 0 && held.bytes <= 0 ? nil : held
        }
    }
}

extension LimitSettings {
    /// Calls that one account may hold, as caller or as called.
    var accountCalls: Int { callsPerAccount > 0 ? min(callsPerAccount, calls) : min(calls, max(32, calls / 16)) }

    /// Bytes of requests that one account may hold.
    var accountBytes: Int { min(heldBytes, max(1 << 20, heldBytes / 16)) }
}
