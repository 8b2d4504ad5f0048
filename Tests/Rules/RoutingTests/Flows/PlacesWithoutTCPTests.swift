@testable import Routing
import Addressing
import Testing
import Timekeeping

@Suite("Addresses that have refused a connection")
struct PlacesWithoutTCPTests {
    private func place(_ number: Int) -> Endpoint { Endpoint(IPAddress(v4: 0x0a00_0001), UInt16(number)) }
    private func at(_ seconds: Int) -> Instant { Instant(nanoseconds: 0) + .seconds(seconds) }

    @Test func `are not tried again for five minutes`() {
        var places = PlacesWithoutTCP()
        places.add(place(1), now: at(0))
        #expect(places.contains(place(1), now: at(299)) && !places.contains(place(2), now: at(0)))
        #expect(!places.contains(place(1), now: at(300)))
    }

    @Test func `many fill no memory: the old ones go first, then all`() {
        var places = PlacesWithoutTCP()
        for number in 1...200 { places.add(place(number), now: at(0)) }
        for number in 201...256 { places.add(place(number), now: at(200)) }
        places.add(place(257), now: at(301))
        #expect(places.contains(place(256), now: at(301)) && places.contains(place(257), now: at(301)))
        for number in 1...200 { places.add(place(number), now: at(301)) }
        #expect(!places.contains(place(256), now: at(301)) && places.contains(place(200), now: at(301)))
    }
}
