package import Addressing
package import Timekeeping

/// Whether the name that we write into Via and Record-Route leads back to us. Where it does not, requests inside calls get lost:
/// the PBX sends its BYE to that name.
///
/// It is looked up, and the places that it gives are asked by OPTIONS, at the start and each hour.
package struct AdvertisedName: Sendable {
    package enum State: String, Hashable, Sendable {
        case unknown
        case reached
        /// It has no address, as far as this machine knows.
        case unresolved
        /// Nothing comes back from its addresses. Behind a NAT that may be so although others reach us.
        case silent
    }

    package private(set) var state = State.unknown
    private var nextLook: Instant?
    private var asked: Set<Endpoint> = []

    private static let interval: Duration = .seconds(3600)
    private static let addressLimit = 4

    /// With `isUsed` false there is no name.
    package init(isUsed: Bool, now: Instant) {
        if isUsed { nextLook = now }
    }

    package var nextDeadline: Instant? { nextLook }

    /// Whether it is time to look the name up.
    package mutating func isDue(now: Instant) -> Bool {
        guard let look = nextLook, look <= now else { return false }
        nextLook = now + Self.interval
        return true
    }

    /// The name was looked up.
    ///
    /// - Returns: the places to ask, and whether the operator is to be told of the new state.
    package mutating func found(_ places: [Endpoint]) -> (ask: [Endpoint], isNews: Bool) {
        guard !places.isEmpty else {
            asked = []
            return ([], turn(to: .unresolved))
        }
        let ask = Array(places.prefix(Self.addressLimit))
        asked = Set(ask)
        return (ask, false)
    }

    /// One of the places has answered.
    package mutating func answered() -> Bool {
        asked = []
        return turn(to: .reached)
    }

    /// Nothing came from one of them.
    package mutating func failed(_ place: Endpoint) -> Bool {
        guard asked.remove(place) != nil, asked.isEmpty else { return false }
        return turn(to: .silent)
    }

    private mutating func turn(to state: State) -> Bool {
        defer { self.state = state }
        return self.state != state
    }
}
