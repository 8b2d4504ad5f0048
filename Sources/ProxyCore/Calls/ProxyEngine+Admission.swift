import Addressing
import Bytes
import Collections
import PushDelivery
import Registration
import SIPGrammar
import Telemetry
import Timekeeping

/// How much may be held for whom, and who may wake phones (T11).
extension ProxyEngine {
    /// Whether there is room for a request that waits for its answer, in all and in the share of its accounts (T11.3); when
    /// not, it has been answered. A caller who holds too much is told that the proxy is full. Whoever calls a user who is
    /// called too much is told that the user is busy: a PBX that hears 503 would go round this proxy.
    func admits(_ incoming: IncomingRequest, from sender: Sender, to callee: AddressOfRecord?, now: Moment)
        -> Bool
    {
        let isInvite = incoming.request.method == .invite
        let size = incoming.request.frame.bytes.count
        func isFull(_ account: HeldShares.Account) -> Bool {
            let share = calls.shares[account]
            return isInvite && share.calls >= settings.limits.accountCalls
                || share.bytes + size > settings.limits.accountBytes
        }
        makeRoom(for: size)
        let (status, refusal): (Status, Refusal)
        if calls.shares.bytes + size > settings.limits.heldBytes {
            (status, refusal) = (.serviceUnavailable, .noRoom)
        } else if sender != .peer && isFull(.caller(sender)) {
            (status, refusal) = (.serviceUnavailable, .callerLimit)
        } else if let callee, isFull(.callee(callee)) {
            (status, refusal) = (isInvite ? .busyHere : .temporarilyUnavailable, .calleeLimit)
        } else {
            return true
        }
        let fields = status == .serviceUnavailable ? [Self.retryAfter(seconds: 5)] : []
        refuse(incoming, status, because: refusal, of: sender, fields: fields, now: now)
        return false
    }

    /// Whom a request counts for. The PBX answers for its callers itself.
    func accounts(_ sender: Sender, _ callee: AddressOfRecord) -> ShortList<HeldShares.Account> {
        var accounts = ShortList(HeldShares.Account.callee(callee))
        if sender != .peer { accounts.append(.caller(sender)) }
        return accounts
    }

    /// Whether this caller may wake anybody now (T11.2). The PBX answers for its callers itself.
    func admitsPushes(of sender: Sender, from incoming: IncomingRequest, now: Moment) -> Bool {
        guard settings.call.pushesPerCaller > 0, sender != .peer else { return true }
        guard !ledger.limits.caller.admit(sender, now: now.instant) else { return true }
        log.warning(
            "caller makes too many calls, nobody is woken",
            [.caller: .bytes(incoming.request.from.uri.text), .source: .described(incoming.flow.remote)])
        return false
    }

    /// Begins to keep a request that is going to be sent on, with a transaction of its own. Where there is no room for one,
    /// it is answered, and the result is `nil`.
    func proxied(
        _ incoming: IncomingRequest, to devices: [DeviceID?], accounts: ShortList<HeldShares.Account> = ShortList(),
        now: Moment
    ) -> (IncomingRequest, Call)? {
        guard let incoming = begun(incoming, now: now), let server = incoming.server else { return nil }
        let call = calls.begin(incoming, server, branches: devices.map(ForkBranch.init), accounts: accounts)
        if settings.call.journal, call.fork.isInvite {
            call.journalling = .open
            journalBegun(call, at: actions.count, now: now)
        }
        return (incoming, call)
    }
}
