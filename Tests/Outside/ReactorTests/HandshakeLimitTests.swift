import Addressing
import Testing
import Timekeeping

@testable import Reactor

@Suite("TLS handshakes of one source (T17.7)")
struct HandshakeLimitTests {
    private let now = Instant(nanoseconds: 1)

    private func peer(_ number: UInt32, port: UInt16 = 1) -> Endpoint {
        Endpoint(IPAddress(v4: 0x7f00_0000 + number), port)
    }

    @Test func `a handshake without a password counts four times, and one of a trusted peer does not count`() {
        var refused = 0
        let trusted = peer(9)
        let limit = HandshakeLimit(
            perSecond: 4, isExempt: { $0.address == trusted.address }, refused: { _ in refused += 1 })
        #expect((0..<50).count { limit.admits(peer(1, port: UInt16($0)), now: now) } == 10)
        #expect(refused == 40)
        #expect(limit.admits(peer(2), now: now))
        #expect((0..<50).count { _ in limit.admits(trusted, now: now) } == 50)
        // For each connection whose client has authenticated, the limit allows one more handshake.
        let served = (0..<60).count { _ in
            guard limit.admits(peer(3), now: now) else { return false }
            limit.proved(peer(3), now: now)
            return true
        }
        #expect(served == 40)
        limit.changed(perSecond: 0)
        #expect((0..<50).count { _ in limit.admits(peer(1), now: now) } == 50)
    }
}
