package import Addressing
package import Timekeeping

/// Checks whether our advertised name, which Via and Record-Route carry, leads back to this daemon. If the name leads
/// elsewhere, requests inside calls get lost: the PBX sends its BYE to that name.
///
/// The daemon looks the name up and sends OPTIONS to its addresses, at the start and each hour.
package struct AdvertisedName: Sendable {
    package enum State: String, Hashable, Sendable {
        case unknown
        case reached
        /// This machine's resolver finds no address for the name.
        case unresolved
        /// No OPTIONS to the addresses came back. Behind a NAT that may happen although other hosts reach us.
        case silent
    }

    package private(set) var state = State.unknown
    private var nextLook: Instant?
    private var asked: Set<Endpoint> = []

    private static let interval: Duration = .seconds(3600)
    private static let addressLimit = 4

    /// With `isUsed` false no name is advertised, and nothing is checked.
    package init(isUsed: Bool, now: Instant) {
        if isUsed { nextLook = now }
    }

    package var nextDeadline: Instant? { nextLook }

    /// Whether the name must be looked up now. If so, the next look-up is due in an hour.
    package mutating func isDue(now: Instant) -> Bool {
        guard let look = nextLook, look <= now else { return false }
        nextLook = now + Self.interval
        return true
    }

    /// The look-up of the name has ended.
    ///
    /// - Returns: the places to send OPTIONS to, and whether the state is new and so must be logged.
    package mutating func found(_ places: [Endpoint]) -> (ask: [Endpoint], isNews: Bool) {
        guard !places.isEmpty else {
            asked = []
            return ([], turn(to: .unresolved))
        }
        let ask = Array(places.prefix(Self.addressLimit))
        asked = Set(ask)
        return (ask, false)
    }

    /// One of the places has answered the OPTIONS. Returns whether the state is new.
    package mutating func answered() -> Bool {
        asked = []
        return turn(to: .reached)
    }

    /// One of the places did not answer the OPTIONS. Returns whether the state is new.
    package mutating func failed(_ place: Endpoint) -> Bool {
        guard asked.remove(place) != nil, asked.isEmpty else { return false }
        return turn(to: .silent)
    }

    private mutating func turn(to state: State) -> Bool {
        defer { self.state = state }
        return self.state != state
    }
}
