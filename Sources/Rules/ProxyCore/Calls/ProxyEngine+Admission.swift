import SIPTransactions
import Addressing
import Bytes
import Collections
import PushDelivery
import Registration
import SIPGrammar
import Telemetry
import Timekeeping

/// Limits on held requests, and the limit on waking phones (T11).
extension ProxyEngine {
    /// Whether a request has room while it waits for its final response: in total, and in the shares of caller and
    /// callee (T11.3).
    ///
    /// If not, this method has answered the request. A caller who holds too much gets 503. A callee with too many held
    /// requests is busy: an INVITE gets 486, another request 480. After a 503, a PBX would go round this proxy.
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

    /// Whether a request that starts no call, such as one inside a dialog, has room in its sender's share. If not, this
    /// method has answered the request. Trusted peers and BYE always have room (T32.3).
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

    /// The caller of a request without a proved user: the caller that a trusted peer names, or else the sender's
    /// address.
    func caller(of request: SIPRequest, on flow: Flow, isTrusted: Bool) -> Caller {
        isTrusted ? Caller(namedIn: request, by: flow.remote.address) : Caller(flow.remote.address)
    }

    /// Whether this caller may wake phones now (T11.2). Trusted peers have no limit here: a PBX limits its own callers.
    func admitsPushes(of caller: Caller, from incoming: IncomingRequest, now: Moment) -> Bool {
        guard settings.call.pushesPerCaller > 0, !caller.isTrusted else { return true }
        guard !ledger.limits.caller.admit(caller, now: now.instant) else { return true }
        log.warning(
            "caller makes too many calls, nobody is woken",
            [.caller: .bytes(incoming.request.from.uri.text), .source: .described(incoming.flow.remote)])
        return false
    }

    /// Starts to keep a request with a server transaction, to send it on. If no transaction is free, this method has
    /// answered the request and returns `nil`.
    func startProxying(
        _ incoming: IncomingRequest, to devices: [DeviceID?], parties: HeldShares.Parties = .nobody,
        now: Moment
    ) -> (IncomingRequest, ProxiedRequest)? {
        guard let incoming = startTransaction(incoming, now: now), let server = incoming.server else { return nil }
        let call = calls.begin(incoming, server, branches: devices.map(ForkBranch.init), parties: parties)
        if call.fork.isInvite {
            call.journalling = .open
            journalBegun(call, at: actions.count, now: now)
        }
        return (incoming, call)
    }

    /// Gives a request a server transaction. If no transaction is free, this method has answered the request and
    /// returns `nil`.
    func startTransaction(
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
