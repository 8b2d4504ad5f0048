@testable import Routing
import Addressing
import ProxyPolicy
import SIPTransactions
import Testing
import Timekeeping

@Suite("Health of the upstream")
struct UpstreamHealthTests {
    private static let first = ResolvedHop(transport: .udp, endpoint: Endpoint(IPAddress(v4: 0x0a00_0002), 5060))
    private static let second = ResolvedHop(transport: .tcp, endpoint: Endpoint(IPAddress(v4: 0x0a00_0003), 5060))
    private static let call = ClientTransactionID(rawValue: 7)

    /// The state machine for the upstream's health, with a clock that jumps from one deadline to the next.
    private struct Bench {
        var health: UpstreamHealth
        var now = Instant(nanoseconds: 1_000_000_000)
        var silent: Set<UInt64> = []
        let start: Instant

        init(_ hops: [ResolvedHop], interval: Duration = .seconds(30)) {
            start = now
            var settings = UpstreamCheckSettings()
            settings.interval = interval
            health = UpstreamHealth(settings, isUsed: true, now: now)
            let orders = due()
            #expect(orders == [.lookUp])
            #expect(health.found(hops, now: now).isEmpty)
        }

        mutating func due() -> [UpstreamHealth.Order] {
            let silent = silent
            return health.due(now: now) { silent.contains($0.rawValue) }
        }

        /// Advances the clock by the duration, and returns the commands of the state machine, each with its time in
        /// seconds. Each look-up of the upstream's name finds the same addresses.
        mutating func pass(_ duration: Duration) -> [String] {
            let end = now + duration
            var told: [String] = []
            while let next = health.nextDeadline, next <= end {
                now = max(now, next)
                for order in due() { told += tell(order) }
            }
            now = end
            return told
        }

        mutating func tell(_ order: UpstreamHealth.Order) -> [String] {
            let time = (now - start) / .seconds(1)
            switch order {
            case .lookUp:
                _ = health.found(health.servers.map(\.hop), now: now)
                return []
            case .probe(let hop): return ["\(time) ask \(hop.endpoint.address)"]
            case .giveUp(let call): return ["\(time) end \(call.rawValue)"]
            case .tell(let place, let state, _): return ["\(time) \(place.address) \(state)"]
            case .tellName(let isKnown): return ["\(time) name \(isKnown)"]
            }
        }

        mutating func answer(_ hop: ResolvedHop = UpstreamHealthTests.first) -> [String] {
            health.heard(at: hop.endpoint, isProbe: true, now: now).flatMap { tell($0) }
        }
    }

    @Test func `one that answers is asked at the interval`() {
        var bench = Bench([Self.first])
        #expect(bench.pass(.zero) == ["0.0 ask 10.0.0.2"])
        #expect(bench.answer() == ["0.0 10.0.0.2 up"])
        #expect(bench.pass(.seconds(30)) == ["30.0 ask 10.0.0.2"])
        #expect(bench.answer() == [])
        #expect(!bench.health.isAway)
    }

    @Test func `a silent server is down until it answers`() {
        var bench = Bench([Self.first])
        #expect(bench.pass(.seconds(10)) == ["0.0 ask 10.0.0.2", "3.0 10.0.0.2 down"])
        #expect(bench.health.isAway)
        // Calls are not refused, because a server that has never answered OPTIONS may still answer calls.
        #expect(!bench.health.refuses)
        #expect(bench.answer() == ["10.0 10.0.0.2 up"])
        #expect(!bench.health.isAway)
        #expect(bench.pass(.seconds(40)).last == "33.0 10.0.0.2 down")
        #expect(bench.health.refuses)
    }

    @Test func `it is asked on while it is away, also where no connection can be made`() {
        var bench = Bench([Self.first])
        _ = bench.pass(.seconds(32))
        #expect(bench.health.probeEnded(at: Self.first.endpoint, wasSent: true, now: bench.now).isEmpty)
        #expect(bench.pass(.zero) == ["32.0 ask 10.0.0.2"])
        #expect(bench.health.probeEnded(at: Self.first.endpoint, wasSent: false, now: bench.now).isEmpty)
        #expect(bench.pass(.seconds(3)) == ["34.0 ask 10.0.0.2"])
    }

    @Test func `a refused connection shows it at once`() {
        var bench = Bench([Self.second])
        _ = bench.pass(.zero)
        let orders = bench.health.probeEnded(at: Self.second.endpoint, wasSent: false, now: bench.now)
        #expect(orders == [.tell(Self.second.endpoint, .down, after: .zero)])
    }

    @Test func `a call without a response has its server asked, and ends when that is silent, too`() {
        var bench = Bench([Self.first])
        _ = bench.pass(.zero)
        _ = bench.answer()
        _ = bench.pass(.seconds(10))
        bench.silent = [7]
        bench.health.called(Self.call, at: Self.first.endpoint, now: bench.now)
        #expect(bench.pass(.seconds(10)) == ["12.0 ask 10.0.0.2", "15.0 10.0.0.2 down", "15.0 end 7"])
    }

    @Test func `after an answered call, no question is sent`() {
        var bench = Bench([Self.first])
        _ = bench.pass(.zero)
        _ = bench.answer()
        bench.health.called(Self.call, at: Self.first.endpoint, now: bench.now)
        #expect(bench.pass(.seconds(29)).isEmpty)
    }

    @Test func `a server that answers others is not away`() {
        var bench = Bench([Self.first])
        _ = bench.pass(.zero)
        bench.silent = [7]
        bench.health.called(Self.call, at: Self.first.endpoint, now: bench.now)
        _ = bench.pass(.seconds(1))
        _ = bench.health.heard(at: Self.first.endpoint, now: bench.now)
        #expect(bench.pass(.seconds(20)).isEmpty)
        #expect(bench.health.servers.map(\.state) == [.up])
    }

    @Test func `where OPTIONS were never answered, calls are tried for four seconds`() {
        var bench = Bench([Self.first])
        _ = bench.pass(.seconds(10))
        bench.silent = [7]
        bench.health.called(Self.call, at: Self.first.endpoint, now: bench.now)
        #expect(bench.pass(.seconds(5)) == ["14.0 end 7"])
        #expect(bench.health.heard(at: Self.first.endpoint, now: bench.now).count == 1)
        #expect(!bench.health.isAway)
    }

    @Test func `of several servers the silent one comes last, and the upstream is away if all are silent`() {
        var bench = Bench([Self.first, Self.second])
        _ = bench.pass(.zero)
        _ = bench.answer(Self.second)
        _ = bench.pass(.seconds(4))
        #expect(bench.health.preferred([Self.first, Self.second]) == [Self.second, Self.first])
        #expect(!bench.health.isAway)
        _ = bench.pass(.seconds(40))
        #expect(bench.health.isAway && !bench.health.refuses)
    }

    @Test func `a name that leads nowhere makes it away`() {
        var bench = Bench([Self.first])
        _ = bench.pass(.zero)
        _ = bench.answer()
        #expect(bench.health.found([], now: bench.now) == [.tellName(isKnown: false)])
        #expect(bench.health.isAway)
        #expect(bench.health.found([], now: bench.now).isEmpty)
        #expect(bench.health.found([Self.first], now: bench.now) == [.tellName(isKnown: true)])
        #expect(!bench.health.isAway)
    }

    @Test func `with the interval 0 no question is sent`() {
        var health = UpstreamHealth(.off, isUsed: true, now: .distantPast)
        #expect(!health.isOn && health.nextDeadline == nil)
        health.called(Self.call, at: Self.first.endpoint, now: .distantPast)
        #expect(health.nextDeadline == nil && !health.isAway && !health.refuses)
    }
}

@Suite("The daemon's own name")
struct AdvertisedNameTests {
    private static let place = Endpoint(IPAddress(v4: 0x0a00_0001), 5060)
    private static let other = Endpoint(IPAddress(v4: 0x0a00_0009), 5060)

    @Test func `its problem is reported once`() {
        let start = Instant(nanoseconds: 5)
        var name = AdvertisedName(isUsed: true, now: start)
        let looks = [name.isDue(now: start), name.isDue(now: start), name.isDue(now: start + .seconds(3601))]
        #expect(looks == [true, false, true])
        let unresolved = [name.found([]).isNews, name.found([]).isNews]
        #expect(unresolved == [true, false] && name.state == .unresolved)
        let asked = name.found([Self.place, Self.other])
        #expect(asked.ask == [Self.place, Self.other] && !asked.isNews)
        let silent = [name.failed(Self.other), name.failed(Self.place)]
        #expect(silent == [false, true] && name.state == .silent)
        _ = name.found([Self.place])
        let reached = [name.answered(), name.failed(Self.place)]
        #expect(reached == [true, false] && name.state == .reached)
        var none = AdvertisedName(isUsed: false, now: start)
        let isDue = none.isDue(now: start)
        #expect(!isDue)
    }
}
