@testable import Calling
import TestSupport
import ProxyPolicy
import Addressing
import Bytes
import Testing
import Timekeeping

@Suite("Shares of waiting requests (T11.3, T32.2)")
struct HeldSharesTests {
    private let eve = Caller(hash: 1, isTrusted: false)
    private let pbx = Caller(hash: 2, isTrusted: true)
    private let bob: UInt64 = 77
    private let now = Instant(nanoseconds: 1_000_000_000)

    private func limits(_ change: (inout LimitSettings) -> Void) -> HeldShares.Limits {
        var settings = ProxySettings()
        settings.trusted = [.endpoint(MachineScene.pbx.remote)]
        change(&settings.limits)
        return HeldShares.Limits(settings)
    }

    private func parties(_ caller: Caller?) -> HeldShares.Parties { HeldShares.Parties(caller: caller, callee: bob) }

    @Test func `an amount counts for all parties that it concerns, and is returned completely`() {
        var shares = HeldShares()
        let share = HeldShares.Share(calls: 1, bytes: 500)
        var claims: [HeldShares.Claim] = []
        for caller in [eve, pbx, nil] { claims.append(shares.take(share, for: parties(caller), limits { _ in })) }
        #expect(shares.all.calls == 3 && shares.all.bytes == 1500 && shares.untrusted.calls == 1)
        #expect(shares[caller: eve].calls == 1 && shares[caller: pbx].calls == 0)
        #expect(shares[callee: bob].bytes == 1500 && shares[untrustedAt: bob].bytes == 500)
        #expect(shares[eve, at: bob].calls == 1 && shares[pbx, at: bob].calls == 1)
        for claim in claims { shares.giveBack(share, of: claim) }
        #expect(shares.all.calls == 0 && shares.all.bytes == 0 && shares.untrusted.bytes == 0)
        #expect(shares[callee: bob].calls == 0 && shares[caller: eve].calls == 0 && shares[eve, at: bob].bytes == 0)
    }

    @Test func `a caller has a part of the callee's share, and the PBX's callers have the rest`() {
        var shares = HeldShares()
        let limits = limits { $0.callsPerAccount = 8 }
        // The setting `caller-share` allows one caller half of the eight held calls.
        for _ in 0..<4 {
            #expect(shares.refusal(of: 100, isInvite: true, for: parties(eve), limits, now: now) == nil)
            _ = shares.take(HeldShares.Share(calls: 1, bytes: 100), for: parties(eve), limits)
        }
        #expect(shares.refusal(of: 100, isInvite: true, for: parties(eve), limits, now: now) == .calleeFull)
        let others = (10...11).map { Caller(hash: $0, isTrusted: false) }
        for other in others { _ = shares.take(HeldShares.Share(calls: 1, bytes: 100), for: parties(other), limits) }
        // The setting `trusted-share` reserves a quarter of the held calls for callers behind the PBX.
        #expect(
            shares.refusal(of: 100, isInvite: true, for: parties(Caller(hash: 12, isTrusted: false)), limits, now: now)
                == .calleeFull)
        #expect(shares.refusal(of: 100, isInvite: true, for: parties(pbx), limits, now: now) == nil)
    }

    @Test func `bytes have limits for one caller and for all`() {
        var shares = HeldShares()
        let limits = limits { $0.heldBytes = 4 << 20 }
        let mebibyte = HeldShares.Share(calls: 0, bytes: 1 << 20)
        _ = shares.take(mebibyte, for: HeldShares.Parties(caller: eve, callee: nil), limits)
        #expect(shares.refusal(of: 1, isInvite: false, for: parties(eve), limits, now: now) == .callerFull)
        for number in 8...9 as ClosedRange<UInt64> {
            let other = HeldShares.Parties(caller: Caller(hash: number, isTrusted: false), callee: nil)
            #expect(shares.refusal(of: 1 << 20, isInvite: false, for: other, limits, now: now) == nil)
            _ = shares.take(mebibyte, for: other, limits)
        }
        // A part of the bytes for held requests is reserved for callers behind the PBX, and for requests that belong to
        // no account.
        let stranger = Caller(hash: 10, isTrusted: false)
        #expect(shares.refusal(of: 1, isInvite: false, for: parties(stranger), limits, now: now) == .proxyFull)
        #expect(shares.refusal(of: 1 << 20, isInvite: false, for: .nobody, limits, now: now) == nil)
        #expect(shares.refusal(of: 1 << 20 + 1, isInvite: false, for: .nobody, limits, now: now) == .proxyFull)
    }

    // MARK: Several nodes

    private struct Nodes: ~Copyable {
        var a = HeldShares(secret: SipHash.Key(low: 1, high: 2))
        var b = HeldShares(secret: SipHash.Key(low: 1, high: 2))

        /// Tells node b the shares of node a, as a row of the store that is `age` old.
        mutating func tell(age: Duration = .zero, run: UInt32 = 7, now: Instant) {
            let counts = a.takeCounts().counts.map { count in
                var count = count
                (count.run, count.age) = (run, age)
                return count
            }
            b.add(counts, now: now)
        }
    }

    private let one = HeldShares.Share(calls: 1, bytes: 100)

    @Test func `calls at another node use up the limits of the caller and of the callee`() {
        var nodes = Nodes()
        let limits = limits { $0.callsPerAccount = 8 }
        var claims: [HeldShares.Claim] = []
        for _ in 0..<4 { claims.append(nodes.a.take(one, for: parties(eve), limits)) }
        #expect(nodes.b.refusal(of: 100, isInvite: true, for: parties(eve), limits, now: now) == nil)
        nodes.tell(now: now)
        #expect(nodes.b.refusal(of: 100, isInvite: true, for: parties(eve), limits, now: now) == .calleeFull)
        let other = Caller(hash: 9, isTrusted: false)
        #expect(nodes.b.refusal(of: 100, isInvite: true, for: parties(other), limits, now: now) == nil)
        // Elsewhere, the caller has half of its own limit left.
        let elsewhere = HeldShares.Parties(caller: eve, callee: 78)
        #expect(nodes.b.refusal(of: 100, isInvite: true, for: elsewhere, limits, now: now) == nil)
        for _ in 0..<4 { claims.append(nodes.a.take(one, for: HeldShares.Parties(caller: eve, callee: 79), limits)) }
        nodes.tell(now: now + .seconds(1))
        #expect(
            nodes.b.refusal(of: 100, isInvite: true, for: elsewhere, limits, now: now + .seconds(1)) == .callerFull)
        // A new list replaces the earlier one.
        for claim in claims.prefix(2) { nodes.a.giveBack(one, of: claim) }
        nodes.tell(now: now + .seconds(2))
        #expect(
            nodes.b.refusal(of: 100, isInvite: true, for: parties(eve), limits, now: now + .seconds(2)) == nil)
    }

    @Test func `the shares of a node without further signs of life end, and late rows do not bring them back`() {
        var nodes = Nodes()
        let limits = limits { $0.callsPerAccount = 8 }
        for _ in 0..<4 { _ = nodes.a.take(one, for: parties(eve), limits) }
        nodes.tell(age: .seconds(1), now: now)
        #expect(nodes.b.refusal(of: 100, isInvite: true, for: parties(eve), limits, now: now) == .calleeFull)
        let later = now + .seconds(4)
        #expect(nodes.b.refusal(of: 100, isInvite: true, for: parties(eve), limits, now: later) == nil)
        nodes.tell(age: .seconds(30), now: later)
        #expect(nodes.b.refusal(of: 100, isInvite: true, for: parties(eve), limits, now: later) == nil)
        // If two rows come together, the newer row counts.
        let old = nodes.a.takeCounts().counts.map { count in
            var count = count
            (count.run, count.age) = (7, .seconds(2))
            return count
        }
        var new = SharedCount(.heldCalls, 1, count: 1)
        new.run = 7
        for rows in [old + [new], [new] + old] {
            nodes.b.add(rows, now: later + .seconds(1))
            #expect(
                nodes.b.refusal(of: 100, isInvite: true, for: parties(eve), limits, now: later + .seconds(1)) == nil)
        }
    }

    @Test func `small shares stay at their node, and names of accounts are secret`() {
        var nodes = Nodes()
        let limits = limits { $0.callsPerAccount = 64 }
        for _ in 0..<3 { _ = nodes.a.take(one, for: parties(eve), limits) }
        #expect(nodes.a.takeCounts().counts.isEmpty)
        _ = nodes.a.take(one, for: parties(eve), limits)
        let counts = nodes.a.takeCounts().counts
        #expect(counts.count == 8 && Set(counts.map(\.count)) == [4, 400])
        #expect(!counts.contains { $0.key == bob || $0.key == eve.rawValue })
        var alone = HeldShares()
        _ = alone.take(HeldShares.Share(calls: 50, bytes: 1), for: parties(eve), limits)
        #expect(alone.takeCounts().counts.isEmpty)
    }

    @Test func `many accounts neither fill the memory nor the store`() {
        var nodes = Nodes()
        let limits = limits { $0.callsPerAccount = 8 }
        for number in 0..<10_000 as Range<UInt64> {
            let caller = Caller(hash: number, isTrusted: false)
            let share = HeldShares.Share(calls: 8, bytes: 100)
            _ = nodes.a.take(share, for: HeldShares.Parties(caller: caller, callee: nil), limits)
        }
        let (counts, dropped) = nodes.a.takeCounts()
        #expect(counts.count == 512 && dropped == 10_000 - 256)
    }
}
