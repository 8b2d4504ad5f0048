package import Addressing
package import Bytes
import Collections
package import ProxyPolicy
import PushDelivery
package import Registration
package import Timekeeping

/// Counts the waiting requests of each caller and callee, and the bytes of the waiting requests (T11.3, T32.2). A
/// request is treated as waiting until its final response.
package struct HeldShares: ~Copyable, Sendable {
    package struct Share: Sendable {
        package internal(set) var calls = 0
        package internal(set) var bytes = 0

        package static func += (left: inout Share, right: Share) {
            left.calls += right.calls
            left.bytes += right.bytes
        }

        package static func -= (left: inout Share, right: Share) {
            left.calls -= right.calls
            left.bytes -= right.bytes
        }
    }

    /// The caller and the callee whose limits apply to a request.
    package struct Parties: Sendable {
        /// The caller whose limits apply; `nil` if no caller is responsible for the request.
        package fileprivate(set) var caller: Caller?
        /// A hash of the called user; `nil` if the callee is no user of this daemon.
        package fileprivate(set) var callee: UInt64?
        /// The tenant whose limit applies; `nil` if no tenant is involved.
        package fileprivate(set) var tenant: TenantShare?

        package init(caller: Caller? = nil, callee: UInt64? = nil, tenant: TenantShare? = nil) {
            self.caller = caller
            self.callee = callee
            self.tenant = tenant
        }

        package static let nobody = Parties(caller: nil, callee: nil)

        /// The key in ``HeldShares/shares`` for the requests of all untrusted callers to one callee.
        fileprivate static func untrusted(at callee: UInt64) -> UInt64 { ~callee }
    }

    /// The slot indexes in ``HeldShares/shares`` that count one request.
    package struct Claim: Sendable {
        @PackedOptional fileprivate var caller: Int32?
        @PackedOptional fileprivate var callee: Int32?
        @PackedOptional fileprivate var untrusted: Int32?
        @PackedOptional fileprivate var pair: Int32?
        @PackedOptional fileprivate var tenant: Int32?
    }

    /// The number of all INVITEs without a final response, and the bytes of all waiting requests.
    package private(set) var all = Share()
    /// The part of ``all`` that untrusted callers have caused.
    package private(set) var untrusted = Share()
    /// The counts for each caller, for each callee, and for each pair of caller and callee. The key is a hash, and
    /// counts of zero are not stored.
    private var shares = PlacedTable<UInt64, Share>(empty: Share())
    /// The shares at the other nodes of the cluster; `nil` without a cluster.
    private var elsewhere: SharesElsewhere?

    /// Creates counts of zero. The parameter `secret` is the secret for the names of accounts in a cluster; `nil` without
    /// a cluster.
    package init(secret: SipHash.Key? = nil) { elsewhere = secret.map { SharesElsewhere(secret: $0) } }

    /// The number of held requests to one callee.
    package subscript(callee callee: UInt64) -> Share { shares[callee] ?? Share() }
    package subscript(tenant tenant: TenantShare) -> Share { shares[tenant.number] ?? Share() }
    package subscript(caller caller: Caller) -> Share { shares[caller.rawValue] ?? Share() }
    package subscript(untrustedAt callee: UInt64) -> Share { shares[Parties.untrusted(at: callee)] ?? Share() }
    package subscript(caller: Caller, at callee: UInt64) -> Share { shares[caller.number(at: callee)] ?? Share() }

    package mutating func take(_ share: Share, for parties: Parties, _ limits: Limits) -> Claim {
        all += share
        var claim = Claim()
        if let tenant = parties.tenant {
            // Without a limit, nobody needs the tenant's count.
            let floor = tenant.calls > 0 ? Share(calls: max(2, tenant.calls / Limits.toldPart), bytes: .max) : nil
            claim.tenant = take(share, for: tenant.number, floor)
        }
        // The requests of a trusted peer count for no single caller, because the peer sends the calls of many callers.
        if let caller = parties.caller, !caller.isTrusted {
            untrusted += share
            claim.caller = take(share, for: caller.rawValue, limits.floor)
        }
        guard let callee = parties.callee else { return claim }
        claim.callee = take(share, for: callee, limits.floor)
        guard let caller = parties.caller else { return claim }
        if !caller.isTrusted { claim.untrusted = take(share, for: Parties.untrusted(at: callee), limits.floor) }
        claim.pair = take(share, for: caller.number(at: callee), limits.floor)
        return claim
    }

    private mutating func take(_ share: Share, for number: UInt64, _ floor: Share?) -> Int32 {
        let place = shares.madePlace(of: number)
        shares[place] += share
        if let floor { elsewhere?.noted(shares[place], of: number, floor: floor) }
        return Int32(truncatingIfNeeded: place)
    }

    package mutating func giveBack(_ share: Share, of claim: Claim) {
        all -= share
        if claim.caller != nil { untrusted -= share }
        giveBack(share, at: claim.caller)
        giveBack(share, at: claim.callee)
        giveBack(share, at: claim.untrusted)
        giveBack(share, at: claim.pair)
        giveBack(share, at: claim.tenant)
    }

    private mutating func giveBack(_ share: Share, at number: Int32?) {
        guard let number else { return }
        let place = UInt32(bitPattern: number)
        shares[place] -= share
        if shares[place].calls <= 0, shares[place].bytes <= 0 { shares.remove(at: place) }
    }

    // MARK: Other nodes

    /// The shares of the largest accounts for the other nodes, and the number of accounts that were left out.
    package mutating func takeCounts() -> (counts: [SharedCount], dropped: Int) {
        guard var elsewhere else { return ([], 0) }
        defer { self.elsewhere = elsewhere }
        return elsewhere.take { shares[$0] ?? Share() }
    }

    /// Notes the shares that other nodes have told.
    package mutating func add(_ told: [SharedCount], now: Instant) { elsewhere?.add(told, now: now) }

    /// The share of an account at all nodes.
    private func whole(_ number: UInt64, now: Instant) -> Share {
        var share = shares[number] ?? Share()
        if let more = elsewhere?.share(of: number, now: now) { share += more }
        return share
    }

    // MARK: Limits

    /// The limit on held requests that a new request would exceed.
    package enum Refusal: Hashable, Sendable {
        /// Too many requests wait in the proxy. A part of the limit is reserved for trusted peers.
        case proxyFull
        /// Too many requests of the caller wait in the proxy.
        case callerFull
        /// Too many calls of the tenant wait in the proxy.
        case tenantFull
        /// Too many requests to the callee wait in the proxy, from all callers or from one caller.
        case calleeFull
    }

    /// The limits on waiting bytes and INVITEs, copied because the settings are a large structure.
    package struct Limits: Sendable {
        /// The limits on all waiting requests together; a trusted peer's requests are limited only by the total of
        /// bytes.
        fileprivate let bytes, calls: FairShare
        /// The limits on the waiting requests to one callee.
        fileprivate let bytesAtCallee, callsAtCallee: FairShare
        /// The share from which the other nodes of a cluster must know an account.
        fileprivate let floor: Share

        /// The part of an account's limit that the other nodes need not know is one by this number.
        fileprivate static let toldPart = 16

        package init(_ settings: ProxySettings) {
            let limits = settings.limits
            bytes = settings.share(of: limits.heldBytes, ofOne: limits.accountBytes)
            calls = settings.share(of: limits.calls, ofOne: limits.accountCalls)
            bytesAtCallee = settings.share(of: limits.accountBytes)
            callsAtCallee = settings.share(of: limits.accountCalls)
            floor = Share(
                calls: max(2, limits.accountCalls / Self.toldPart), bytes: max(1, limits.accountBytes / Self.toldPart))
        }
    }

    /// The limit that a request of the given size would exceed; `nil` if the request is within the limits. The limits of
    /// callers, callees and tenants hold for all nodes of a cluster together.
    package func refusal(
        of size: Int, isInvite: Bool, for parties: Parties, _ limits: Limits, now: Instant
    ) -> Refusal? {
        guard let caller = parties.caller else { return all.bytes + size > limits.bytes.whole ? .proxyFull : nil }
        func refusal(_ amount: Int, _ share: FairShare, _ all: Int, _ untrusted: Int, _ own: Int) -> FairShare.Refusal?
        {
            share.refusal(
                of: amount, beside: FairShare.Taken(all: all, untrusted: untrusted, own: own),
                isTrusted: caller.isTrusted)
        }
        if caller.isTrusted {
            // Requests of a trusted peer have only the limit of all bytes, because the peer sends the calls of many
            // callers.
            if all.bytes + size > limits.bytes.whole { return .proxyFull }
        } else {
            let own = whole(caller.rawValue, now: now)
            let inAll =
                refusal(size, limits.bytes, all.bytes, untrusted.bytes, own.bytes)
                ?? (isInvite ? refusal(1, limits.calls, untrusted.calls, untrusted.calls, own.calls) : nil)
            switch inAll {
            case .callerFull: return .callerFull
            case .allFull: return .proxyFull
            case nil: break
            }
        }
        if let tenant = parties.tenant, isInvite, tenant.calls > 0, whole(tenant.number, now: now).calls >= tenant.calls
        {
            return .tenantFull
        }
        guard let callee = parties.callee else { return nil }
        let (called, strangers) = (whole(callee, now: now), whole(Parties.untrusted(at: callee), now: now))
        let pair = whole(caller.number(at: callee), now: now)
        let atCallee =
            (isInvite ? refusal(1, limits.callsAtCallee, called.calls, strangers.calls, pair.calls) : nil)
            ?? refusal(size, limits.bytesAtCallee, called.bytes, strangers.bytes, pair.bytes)
        return atCallee == nil ? nil : .calleeFull
    }
}

extension AddressOfRecord {
    /// A 64-bit hash of the user, used as the key in ``HeldShares``.
    package var shareNumber: UInt64 {
        var hash = FNV1a()
        hash.mix(3)
        hash.mix(user)
        hash.mix(host)
        return hash.value
    }
}

/// The counter of a tenant's calls in ``HeldShares``. The counter is found by the tenant's domain, because the numbers
/// of tenants change with the settings.
package struct TenantShare: Sendable {
    /// A 64-bit hash of the tenant's domain, used as the key in ``HeldShares``.
    fileprivate let number: UInt64
    /// The maximum number of the tenant's calls that wait at the same time; zero for no limit.
    fileprivate let calls: Int

    package init(of domain: ByteString, calls: Int) {
        var hash = FNV1a()
        hash.mix(4)
        hash.mix(domain)
        number = hash.value
        self.calls = calls
    }
}
