package import Addressing
import Collections
import ProxyCore
package import ProxyPolicy
package import Timekeeping

/// The limits for SIP connections over TCP (T17).
package struct FlowLimits: Hashable, Sendable {
    /// The maximum time from the start of a SIP connection until its first request is complete.
    package var firstRequest: Duration
    /// The maximum time from the start of a connection until a user authenticates on the connection; `nil` if phones
    /// need no authentication.
    package var authentication: Duration?
    /// The maximum time that output waits for a peer that does not read.
    package var output: Duration
    /// The maximum number of unauthenticated connections from one source address.
    package var perSource: Int
    /// The maximum number of all SIP connections over TCP.
    package var connections: Int
    /// The maximum number of TLS handshakes that one source address may begin per second (T17.7); 0 for no limit.
    package var handshakesPerSource: Int

    /// The maximum number of authenticated connections of one account, so that no user can fill the table.
    var perAccount: Int { min(connections, max(32, connections / 16)) }

    package init(_ settings: LimitSettings = LimitSettings(), authenticates: Bool = true) {
        firstRequest = settings.firstRequest
        authentication = authenticates ? settings.authentication : nil
        output = settings.outputTimeout
        perSource = settings.connectionsPerSource
        connections = settings.connections
        handshakesPerSource = settings.handshakesPerSource
    }
}

/// Decides which SIP connections may stay open. A connection without an authenticated user has a time limit, counts for
/// its source, and is closed first when the table is full.
///
/// ``FlowAdmission`` does no I/O and reads no clock. Each list is in order of age, because all unauthenticated
/// connections have the same time limit.
package struct FlowAdmission {
    package enum Verdict: Hashable, Sendable {
        case admitted
        /// The connection is admitted in place of the oldest unauthenticated connection. The associated value is the
        /// number of that oldest connection, which must be closed.
        case admittedFor(UInt64)
        /// The SIP connection is refused, because its source has reached the limit of unauthenticated connections.
        case refusedForSource
        /// The connection is refused because the table is full of authenticated connections.
        case refusedForTable
    }

    package enum Cause: Hashable, Sendable {
        /// The peer did not send a whole request in time.
        case noRequest
        /// No user authenticated on the connection in time.
        case notProved
    }

    /// The state of one SIP connection. ``StreamFlows`` keeps the state of each connection, and passes it to each
    /// function.
    package struct Standing {
        fileprivate let source: IPAddress
        /// The position of the connection in the list of connections that have sent no whole request; `nil` after the
        /// first request.
        fileprivate var silent: AgeList<Entry>.Place?
        /// The position of the connection in the list of unauthenticated connections; `nil` after authentication.
        fileprivate var unproved: AgeList<Entry>.Place?
        /// The account whose password authenticated the connection.
        fileprivate var account: Int?

        package var isUnproved: Bool { unproved != nil }
    }

    fileprivate struct Entry {
        let number: UInt64
        let start: Instant
    }

    package var limits: FlowLimits
    private var silent = AgeList<Entry>()
    private var unproved = AgeList<Entry>()
    /// The number of unauthenticated connections from each source address.
    private var sources: [IPAddress: Int] = [:]
    /// The number of authenticated connections of each account.
    private var accounts: [Int: Int] = [:]
    private(set) package var count = 0

    package init(_ limits: FlowLimits) { self.limits = limits }

    // MARK: New connections

    package func verdict(on source: IPAddress, isTrusted: Bool) -> Verdict {
        if !isTrusted, sources[source, default: 0] >= limits.perSource { return .refusedForSource }
        return verdictOnOutgoing()
    }

    /// Decides whether a connection that the daemon opens may stay. The table of connections must have room, but no
    /// limit per source applies.
    package func verdictOnOutgoing() -> Verdict {
        guard count >= limits.connections else { return .admitted }
        return unproved.oldest.map { .admittedFor($0.number) } ?? .refusedForTable
    }

    package mutating func added(
        _ number: UInt64, from source: IPAddress, isTrusted: Bool, now: Instant
    ) -> Standing {
        count += 1
        guard !isTrusted else { return Standing(source: source) }
        sources[source, default: 0] += 1
        let entry = Entry(number: number, start: now)
        return Standing(source: source, silent: silent.append(entry), unproved: unproved.append(entry))
    }

    package mutating func addedOutgoing() -> Standing {
        count += 1
        return Standing(source: .anyV4)
    }

    // MARK: Events of a connection

    /// Notes that a whole request has arrived on the connection.
    package mutating func asked(_ standing: inout Standing) {
        guard let place = standing.silent.take() else { return }
        silent.remove(place)
    }

    /// Notes that a user has authenticated on the connection; if no password is required, that a phone has registered a
    /// contact. ``proved(_:by:)`` must be called only once for each connection.
    ///
    /// - Returns: false if the account has reached its limit; the connection is still served, but is treated as
    ///   unauthenticated.
    package mutating func proved(_ standing: inout Standing, by account: Int?) -> Bool {
        if let account, standing.isUnproved {
            let count = accounts[account, default: 0]
            guard count < limits.perAccount else { return false }
            accounts[account] = count + 1
            standing.account = account
        }
        isNoStranger(&standing)
        return true
    }

    private mutating func isNoStranger(_ standing: inout Standing) {
        asked(&standing)
        guard let place = standing.unproved.take() else { return }
        unproved.remove(place)
        Self.countDown(&sources, standing.source)
    }

    /// Forgets a connection that was closed; ``removed(_:)`` is called once for each connection.
    package mutating func removed(_ standing: inout Standing) {
        isNoStranger(&standing)
        if let account = standing.account.take() { Self.countDown(&accounts, account) }
        count -= 1
    }

    private static func countDown<Key: Hashable>(_ counts: inout [Key: Int], _ key: Key) {
        let left = counts[key, default: 1] - 1
        counts[key] = left > 0 ? left : nil
    }

    // MARK: Time

    /// The time at which the next time limit of a connection ends; `nil` if no connection has a time limit.
    package var nextDeadline: Instant? {
        let first = silent.oldest.map { $0.start + limits.firstRequest }
        let second = limits.authentication.flatMap { time in unproved.oldest.map { $0.start + time } }
        guard let first, let second else { return first ?? second }
        return min(first, second)
    }

    /// Returns a connection whose time limit has passed, and the kind of the limit; `nil` if no time limit has passed.
    /// Each expired connection must be removed before ``expired(now:)`` is called again.
    package func expired(now: Instant) -> (number: UInt64, cause: Cause)? {
        if let entry = silent.oldest, entry.start + limits.firstRequest <= now { return (entry.number, .noRequest) }
        guard let time = limits.authentication, let entry = unproved.oldest, entry.start + time <= now else {
            return nil
        }
        return (entry.number, .notProved)
    }
}
