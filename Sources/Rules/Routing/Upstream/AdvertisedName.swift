package import Addressing
package import Timekeeping

/// Checks whether the daemon's advertised host name in Via and Record-Route leads to this daemon.
///
/// If the advertised name leads to another host, requests inside dialogs get lost, such as the PBX's BYE. At the start
/// and each hour, the daemon looks up its advertised name and sends OPTIONS to the addresses.
package struct AdvertisedName: Sendable {
    package enum State: String, Hashable, Sendable {
        case unknown
        case reached
        /// The DNS look-up finds no address of the advertised name.
        case unresolved
        /// No OPTIONS to the addresses of the advertised name has arrived at the daemon. Behind a NAT, the daemon's
        /// OPTIONS to itself may be lost although other hosts reach the daemon.
        case silent
    }

    package private(set) var state = State.unknown
    private var nextLook: Instant?
    private var asked: Set<Endpoint> = []

    private static let interval: Duration = .seconds(3600)
    private static let addressLimit = 4

    /// Creates the check; if `isUsed` is false, the daemon advertises no name, and nothing is checked.
    package init(isUsed: Bool, now: Instant) {
        if isUsed { nextLook = now }
    }

    package var nextDeadline: Instant? { nextLook }

    /// Whether the advertised name must be looked up now. If the result is true, the next look-up is due an hour later.
    package mutating func isDue(now: Instant) -> Bool {
        guard let look = nextLook, look <= now else { return false }
        nextLook = now + Self.interval
        return true
    }

    /// Handles the addresses from the look-up of the advertised name.
    ///
    /// - Returns: the addresses for OPTIONS, and whether a change of the state must be logged.
    package mutating func found(_ places: [Endpoint]) -> (ask: [Endpoint], isNews: Bool) {
        guard !places.isEmpty else {
            asked = []
            return ([], turn(to: .unresolved))
        }
        let ask = Array(places.prefix(Self.addressLimit))
        asked = Set(ask)
        return (ask, false)
    }

    /// Notes that an OPTIONS to the advertised name was answered, and returns whether the state has changed.
    package mutating func answered() -> Bool {
        asked = []
        return turn(to: .reached)
    }

    /// Notes that an OPTIONS to the advertised name was not answered, and returns whether the state has changed.
    package mutating func failed(_ place: Endpoint) -> Bool {
        guard asked.remove(place) != nil, asked.isEmpty else { return false }
        return turn(to: .silent)
    }

    private mutating func turn(to state: State) -> Bool {
        defer { self.state = state }
        return self.state != state
    }
}
