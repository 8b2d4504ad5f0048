import Timekeeping

/// Decides when events that the receiver did not accept are sent again.
struct EventPacing: Hashable, Sendable {
    /// The pause before the second try. The pause doubles with each try, up to ``longest``.
    static let shortest: Duration = .seconds(1)
    static let longest: Duration = .seconds(300)

    private var pause = EventPacing.shortest

    /// Notes that the receiver has accepted events.
    mutating func succeeded() { pause = Self.shortest }

    /// Notes a failed try.
    ///
    /// - Parameters:
    ///   - wish: the time for which the receiver asked in Retry-After.
    ///   - chance: a random number from 0 to 1, so that several daemons do not come back in the same moment.
    /// - Returns: the pause before the next try.
    mutating func failed(wish: Duration?, chance: Double) -> Duration {
        let own = pause * (0.5 + 0.5 * min(max(chance, 0), 1))
        pause = min(pause * 2, Self.longest)
        return max(own, wish ?? .zero)
    }
}

/// The effect of the receiver's answer.
enum EventAnswer: Hashable, Sendable {
    case taken
    /// The events are sent again later. The text is for operators.
    case again(String)

    init(status: Int) {
        switch status {
        case 200...299: self = .taken
        case 300...399:
            self = .again(
                "status \(status): the daemon follows no redirects, so events.url must name the receiver itself")
        case 401, 403:
            self = .again("status \(status): the receiver refuses the requests; compare the secrets on both sides")
        case 404: self = .again("status 404: the receiver does not know the path in events.url")
        case 410: self = .again("status 410: the receiver is gone; correct or remove events.url")
        case 413: self = .again("status 413: the receiver must accept requests of 256 KiB")
        default: self = .again("status \(status)")
        }
    }
}
