import Addressing
import Bytes
import ProxyPolicy
import Telemetry
import TestSupport
import Testing
import Timekeeping

@testable import Routing

@Suite("What is known of the upstream")
struct UpstreamStateTests {
    private func endpoint(_ last: UInt8, _ port: UInt16 = 5060) -> Endpoint {
        Endpoint(IPAddress(v4: 0xc000_0200 | UInt32(last)), port)
    }

    private func hop(_ last: UInt8, server: ServerNumber = .none) -> ResolvedHop {
        ResolvedHop(transport: .udp, endpoint: endpoint(last), server: server)
    }

    /// The endpoints that count as the upstream.
    private func sources(
        among places: [Endpoint], _ watch: borrowing UpstreamState, _ settings: ProxySettings
    ) -> [Endpoint] {
        var found: [Endpoint] = []
        for place in places where watch.isSource(place, of: settings.upstream, settings.trusted) { found.append(place) }
        return found
    }

    @Test func `addresses of its name add up, each once, and the oldest go beyond 64`() {
        var watch = UpstreamState()
        watch.resolved(to: [hop(1), hop(2), hop(1)])
        watch.resolved(to: [hop(2), hop(3)])
        #expect(watch.places == [endpoint(1), endpoint(2), endpoint(3)])
        watch.resolved(to: (4...66).map { hop($0) })
        #expect(watch.places.count == 64 && watch.places.first == endpoint(3) && watch.places.last == endpoint(66))
    }

    @Test func `the number of its name stays when a later look-up has none`() {
        var watch = UpstreamState()
        watch.resolved(to: [hop(1), hop(2, server: ServerNumber(9))])
        watch.resolved(to: [hop(3)])
        #expect(watch.server == ServerNumber(9))
    }

    @Test func `it may send from any port of its addresses, unless one port of the address is trusted`() throws {
        var watch = UpstreamState()
        var settings = ProxySettings()
        settings.upstream = NextHop("sip:pbx.example.net")
        let places = [endpoint(1), endpoint(1, 40_000), endpoint(2)]
        #expect(sources(among: places, watch, settings).isEmpty)
        watch.resolved(to: [hop(1)])
        #expect(sources(among: places, watch, settings) == [endpoint(1), endpoint(1, 40_000)])
        settings.trusted = [.endpoint(endpoint(1))]
        #expect(sources(among: places, watch, settings) == [endpoint(1)])
    }

    @Test func `an upstream that the settings name by address has that address alone`() {
        var watch = UpstreamState()
        var settings = ProxySettings()
        settings.upstream = NextHop("sip:192.0.2.7:5080")
        watch.resolved(to: [hop(1)])
        let places = [endpoint(7, 5080), endpoint(7, 1), endpoint(1)]
        #expect(sources(among: places, watch, settings) == [endpoint(7, 5080), endpoint(7, 1)])
        settings.trusted = [.endpoint(endpoint(7, 5080))]
        #expect(sources(among: places, watch, settings) == [endpoint(7, 5080)])
    }

    @Test func `addresses of this daemon are not used, and the log has the first removal`() {
        var watch = UpstreamState()
        let listener = Listener(
            number: 0, transport: .udp, bound: endpoint(9), sentBy: ByteString("proxy.example.net:5060"))
        let identity = LocalIdentity(listeners: [listener], domains: [])
        let sink = MemoryLogSink()
        let log = Log(level: .info, sink: sink) { UnixTime(milliseconds: 0) }
        #expect(watch.withoutOurs([hop(1)], identity, log).map(\.endpoint) == [endpoint(1)])
        #expect(sink.lines.isEmpty)
        for _ in 1...3 {
            #expect(watch.withoutOurs([hop(9), hop(2)], identity, log).map(\.endpoint) == [endpoint(2)])
        }
        #expect(sink.lines.count == 1)
    }

    @Test func `its next deadline is the earlier one of server and name, or the only one`() {
        let (start, later) = (Instant(nanoseconds: 5), Instant(nanoseconds: 9))
        var settings = UpstreamCheckSettings()
        settings.interval = .seconds(30)
        var watch = UpstreamState()
        #expect(watch.nextDeadline == nil)
        watch.ownName = AdvertisedName(isUsed: true, now: later)
        #expect(watch.nextDeadline == later)
        watch.health = UpstreamHealth(settings, isUsed: true, now: start)
        #expect(watch.nextDeadline == start)
        watch.ownName = AdvertisedName(isUsed: false, now: later)
        #expect(watch.nextDeadline == start)
    }
}
