package import Addressing
package import Timekeeping

/// Checks whether the daemon's advertised host name, which Via and Record-Route contain, leads to this daemon. If it
/// leads to another host, requests inside dialogs get lost, such as the BYE of the PBX.
///
/// The daemon looks up the name and sends OPTIONS to its addresses, at the start and each hour.
package struct AdvertisedName: Sendable {
    package enum State: String, Hashable, Sendable {
        case unknown
        case reached
        /// The look-up on this machine finds no address for the name.
        case unresolved
        /// None of the OPTIONS to the addresses has arrived at the daemon. Behind a NAT, these OPTIONS may be lost
        /// although other hosts reach this daemon.
        case silent
    }

    package private(set) var state = State.unknown
    private var nextLook: Instant?
    private var asked: Set<Endpoint> = []

    private static let interval: Duration = .seconds(3600)
    private static let addressLimit = 4

    /// Creates the check. If `isUsed` is false, no name is advertised, and nothing is checked.
    package init(isUsed: Bool, now: Instant) {
        if isUsed { nextLook = now }
    }

    package var nextDeadline: Instant? { nextLook }

    /// Whether the name must be looked up now. If the result is true, the next look-up is due in an hour.
    package mutating func isDue(now: Instant) -> Bool {
        guard let look = nextLook, look <= now else { return false }
        nextLook = now + Self.interval
        return true
    }

    /// Handles the result of the look-up of the name.
    ///
    /// - Returns: the addresses to which OPTIONS must be sent, and whether the state has changed, so that it must be
    ///   logged.
    package mutating func found(_ places: [Endpoint]) -> (ask: [Endpoint], isNews: Bool) {
        guard !places.isEmpty else {
            asked = []
            return ([], turn(to: .unresolved))
        }
        let ask = Array(places.prefix(Self.addressLimit))
        asked = Set(ask)
        return (ask, false)
    }

    /// Notes that an OPTIONS to one of the addresses was answered. Returns whether the state has changed.
    package mutating func answered() -> Bool {
        asked = []
        return turn(to: .reached)
    }

    /// Notes that an OPTIONS to one of the addresses was not answered. Returns whether the state has changed.
    package mutating func failed(_ place: Endpoint) -> Bool {
        guard asked.remove(place) != nil, asked.isEmpty else { return false }
        return turn(to: .silent)
    }

    private mutating func turn(to state: State) -> Bool {
        defer { self.state = state }
        return self.state != state
    }
}
