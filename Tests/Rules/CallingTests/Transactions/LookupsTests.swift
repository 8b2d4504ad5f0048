@testable import Calling
import Routing
import Addressing
import Testing
import Timekeeping

@Suite("Look-ups, without an engine")
struct LookupsTests {
    private let now = Instant(nanoseconds: 1_000_000_000)
    private func place(_ number: Int) -> Endpoint {
        Endpoint(IPAddress(v4: 0x0a00_0000 + UInt32(number)), 5060)
    }

    @Test func `an answer finds its purpose once`() {
        var lookups = Lookups()
        let (first, second) = (lookups.begin(for: .upstream), lookups.begin(for: .ownName))
        #expect(first != second)
        guard case .ownName? = lookups.take(second) else { return #expect(Bool(false), "another purpose") }
        #expect(lookups.take(second) == nil)
    }

    @Test func `answers for a former upstream have no effect`() {
        var lookups = Lookups()
        let (upstream, own) = (lookups.begin(for: .upstream), lookups.begin(for: .ownName))
        lookups.upstreamChanged()
        #expect(lookups.take(upstream) == nil && lookups.take(own) != nil)
    }

    @Test func `a place without TCP is tried again after five minutes`() {
        var places = PlacesWithoutTCP()
        places.add(place(1), now: now)
        #expect(places.contains(place(1), now: now + .seconds(299)) && !places.contains(place(2), now: now))
        #expect(!places.contains(place(1), now: now + .seconds(300)))
    }

    @Test func `a full table first drops expired entries, then all of them`() {
        var places = PlacesWithoutTCP()
        for number in 0..<255 { places.add(place(number), now: now) }
        places.add(place(300), now: now + .seconds(200))
        places.add(place(301), now: now + .seconds(301))
        #expect(places.contains(place(300), now: now + .seconds(301)))
        #expect(places.contains(place(301), now: now + .seconds(301)))
        for number in 400..<655 { places.add(place(number), now: now + .seconds(301)) }
        #expect(!places.contains(place(300), now: now + .seconds(301)))
        #expect(places.contains(place(654), now: now + .seconds(301)))
    }
}
