package import Addressing
package import Timekeeping

/// The addresses that refused a TCP connection within the last five minutes, so that large requests to them use UDP.
package struct PlacesWithoutTCP {
    private var ends: [Endpoint: Instant] = [:]

    package init() {}

    private static let limit = 256
    private static let age: Duration = .seconds(300)

    package func contains(_ place: Endpoint, now: Instant) -> Bool { ends[place].map { now < $0 } ?? false }

    package mutating func add(_ place: Endpoint, now: Instant) {
        if ends.count >= Self.limit { ends = ends.filter { now < $0.value } }
        if ends.count >= Self.limit { ends.removeAll() }
        ends[place] = now + Self.age
    }
}
