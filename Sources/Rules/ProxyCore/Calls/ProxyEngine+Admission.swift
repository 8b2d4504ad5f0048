import SIPTransactions
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
    func admits(_ incoming: IncomingRequest, from caller: Caller, to callee: AddressOfRecord?, now: Moment)
        -> Bool
    {
        let isInvite = incoming.request.method == .invite
        let size = incoming.request.frame.bytes.count
        makeRoom(for: size)
        let parties = HeldShares.Parties(caller: caller, callee: callee?.shareNumber)
        let (status, refusal): (Status, Refusal)
        switch calls.shares.refusal(of: size, isInvite: isInvite, for: parties, calls.limits) {
        case nil: return true
        case .proxyFull: (status, refusal) = (.serviceUnavailable, .noRoom)
        case .callerFull: (status, refusal) = (.serviceUnavailable, .callerLimit)
        case .calleeFull: (status, refusal) = (isInvite ? .busyHere : .temporarilyUnavailable, .calleeLimit)
        }
        counters.count(.shareUsedUp)
        let fields = status == .serviceUnavailable ? [Self.retryAfter(seconds: 5)] : []
        refuse(incoming, status, because: refusal, fields: fields, now: now)
        return false
    }

    /// Whether there is room for a request that begins nothing, inside a dialog above all, in what its sender may hold; when
    /// not, it has been answered. The trusted side is not asked, and a BYE always has room (T32.3).
    func admitsBesides(_ incoming: IncomingRequest, from caller: Caller, now: Moment) -> Bool {
        guard incoming.request.method != .bye, !caller.isTrusted else { return true }
        let size = incoming.request.frame.bytes.count
        let parties = HeldShares.Parties(caller: caller)
        guard calls.shares.refusal(of: size, isInvite: false, for: parties, calls.limits) != nil else { return true }
        counters.count(.shareUsedUp)
        refuse(
            incoming, .serviceUnavailable, because: .callerLimit, fields: [Self.retryAfter(seconds: 5)], now: now)
        return false
    }

    /// Whom a trusted peer names, or the address: who answers for a request that has shown no password.
    func caller(of request: SIPRequest, on flow: Flow, isTrusted: Bool) -> Caller {
        isTrusted ? Caller(namedIn: request, by: flow.remote.address) : Caller(flow.remote.address)
    }

    /// Whether this caller may wake anybody now (T11.2). The PBX answers for its callers itself.
    func admitsPushes(of caller: Caller, from incoming: IncomingRequest, now: Moment) -> Bool {
        guard settings.call.pushesPerCaller > 0, !caller.isTrusted else { return true }
        guard !ledger.limits.caller.admit(caller, now: now.instant) else { return true }
        log.warning(
            "caller makes too many calls, nobody is woken",
            [.caller: .bytes(incoming.request.from.uri.text), .source: .described(incoming.flow.remote)])
        return false
    }

    /// Begins to keep a request that is going to be sent on, with a transaction of its own. Where there is no room for one,
    /// it is answered, and the result is `nil`.
    func proxied(
        _ incoming: IncomingRequest, to devices: [DeviceID?], parties: HeldShares.Parties = .nobody,
        now: Moment
    ) -> (IncomingRequest, Call)? {
        guard let incoming = begun(incoming, now: now), let server = incoming.server else { return nil }
        let call = calls.begin(incoming, server, branches: devices.map(ForkBranch.init), parties: parties)
        if call.fork.isInvite {
            call.journalling = .open
            journalBegun(call, at: actions.count, now: now)
        }
        return (incoming, call)
    }

    /// Gives a request a transaction of its own. Where there is no room for one, it is answered, and the result is `nil`.
    func begun(
        _ incoming: IncomingRequest, cancelling invite: ServerTransactionID? = nil, now: Moment
    ) -> IncomingRequest? {
        guard incoming.server == nil, let key = incoming.key else { return incoming }
        guard
            let server = transactions.begin(
                key, for: incoming.request, cancelling: invite, respondOn: incoming.responseFlow, now: now.instant)
        else {
            counters.count(.rejectedOverload)
            noteRefused(incoming, .serviceUnavailable, because: .noRoom, now: now)
            sendStateless(incoming, .serviceUnavailable)
            return nil
        }
        return incoming.matched(server)
    }
}
