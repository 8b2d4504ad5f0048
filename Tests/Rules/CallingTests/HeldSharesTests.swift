@testable import Calling
import TestSupport
import ProxyPolicy
import Addressing
import Testing
import Timekeeping

@Suite("Shares of waiting requests (T11.3, T32.2)")
struct HeldSharesTests {
    private let eve = Caller(hash: 1, isTrusted: false)
    private let pbx = Caller(hash: 2, isTrusted: true)
    private let bob: UInt64 = 77

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
        for caller in [eve, pbx, nil] { claims.append(shares.take(share, for: parties(caller))) }
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
            #expect(shares.refusal(of: 100, isInvite: true, for: parties(eve), limits) == nil)
            _ = shares.take(HeldShares.Share(calls: 1, bytes: 100), for: parties(eve))
        }
        #expect(shares.refusal(of: 100, isInvite: true, for: parties(eve), limits) == .calleeFull)
        let others = (10...11).map { Caller(hash: $0, isTrusted: false) }
        for other in others { _ = shares.take(HeldShares.Share(calls: 1, bytes: 100), for: parties(other)) }
        // The setting `trusted-share` reserves a quarter of the held calls for callers behind the PBX.
        #expect(
            shares.refusal(of: 100, isInvite: true, for: parties(Caller(hash: 12, isTrusted: false)), limits)
                == .calleeFull)
        #expect(shares.refusal(of: 100, isInvite: true, for: parties(pbx), limits) == nil)
    }

    @Test func `bytes have limits for one caller and for all`() {
        var shares = HeldShares()
        let limits = limits { $0.heldBytes = 4 << 20 }
        let mebibyte = HeldShares.Share(calls: 0, bytes: 1 << 20)
        _ = shares.take(mebibyte, for: HeldShares.Parties(caller: eve, callee: nil))
        #expect(shares.refusal(of: 1, isInvite: false, for: parties(eve), limits) == .callerFull)
        for number in 8...9 as ClosedRange<UInt64> {
            let other = HeldShares.Parties(caller: Caller(hash: number, isTrusted: false), callee: nil)
            #expect(shares.refusal(of: 1 << 20, isInvite: false, for: other, limits) == nil)
            _ = shares.take(mebibyte, for: other)
        }
        // A part of the bytes for held requests is reserved for callers behind the PBX, and for requests that belong to
        // no account.
        let stranger = Caller(hash: 10, isTrusted: false)
        #expect(shares.refusal(of: 1, isInvite: false, for: parties(stranger), limits) == .proxyFull)
        #expect(shares.refusal(of: 1 << 20, isInvite: false, for: .nobody, limits) == nil)
        #expect(shares.refusal(of: 1 << 20 + 1, isInvite: false, for: .nobody, limits) == .proxyFull)
    }
}
