package import Bytes
package import PushDelivery

/// A query for the report of wakes: how many phones came after a push about a call, and after which time.
package struct WakeQuestion: Hashable, Sendable {
    package enum Grouping: String, Sendable, CaseIterable {
        case provider, app, system
    }

    package var by = Grouping.provider
    /// The first and the last day, in days since 1970 in UTC. A push belongs to the day of its request.
    package var days: ClosedRange<Int64>
    /// The domains whose users' pushes count; `nil` for all domains.
    package var domains: [ByteString]?

    package init(days: ClosedRange<Int64>) { self.days = days }
}

/// The counted pushes of one provider, app or system.
package struct WakeRow: Hashable, Sendable {
    package let name: String
    package let counts: WakeCounts

    package init(name: String, counts: WakeCounts) {
        (self.name, self.counts) = (name, counts)
    }
}
