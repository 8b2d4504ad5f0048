package import Addressing
import Collections
package import ProxyCore
package import Timekeeping

/// The limits that SIP connections over TCP must keep to (T17).
package struct FlowLimits: Hashable, Sendable {
    /// How long a connection may take from its start to the end of its first request.
    package var firstRequest: Duration
    /// How long a connection may take from its start until somebody has proved on it who he is; `nil` where nobody
    /// must.
    package var authentication: Duration?
    /// How long a peer may read nothing of the output that waits for it.
    package var output: Duration
    /// How many connections that have not proved themselves one source may have.
    package var perSource: Int
    /// How many connections there may be in all.
    package var connections: Int
    /// How many TLS handshakes a second one source may begin (T17.7); 0 for any number.
    package var handshakesPerSource: Int

    /// How many connections one account may have proved: a share of all, so that no user can fill the table.
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

/// Decides which connections may stay. One on which nobody has proved who he is has little time, counts against a limit
/// of its source, and gives way to others when the table is full.
///
/// Does no I/O and reads no clock. All unproved connections have the same time, so that lists in the order of their age
/// suffice: nothing here costs more with many connections than with few.
package struct FlowAdmission {
    package enum Verdict: Hashable, Sendable {
        case admitted
        /// Admitted once the connection of that number is closed: the oldest that has not proved itself.
        case admittedFor(UInt64)
        /// The source has as many unproved connections as it may.
        case refusedForSource
        /// The table is full of connections that have proved themselves.
        case refusedForTable
    }

    package enum Cause: Hashable, Sendable {
        /// It has sent no whole request in time.
        case noRequest
        /// Nobody has proved on it in time who he is.
        case notProved
    }

    /// What is known of one connection; its owner keeps it and hands it back.
    package struct Standing {
        fileprivate let source: IPAddress
        /// Its place among the connections without a whole request; `nil` once it has sent one.
        fileprivate var silent: AgeList<Entry>.Place?
        /// Its place among the unproved connections; `nil` once it has proved itself.
        fileprivate var unproved: AgeList<Entry>.Place?
        /// The account whose password has proved the connection.
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
    /// How many unproved connections each source has.
    private var sources: [IPAddress: Int] = [:]
    /// How many proved connections each account has.
    private var accounts: [Int: Int] = [:]
    private(set) package var count = 0

    package init(_ limits: FlowLimits) { self.limits = limits }

    // MARK: Coming

    package func verdict(on source: IPAddress, isTrusted: Bool) -> Verdict {
        if !isTrusted, sources[source, default: 0] >= limits.perSource { return .refusedForSource }
        return verdictOnOutgoing()
    }

    /// The verdict on a connection that the daemon makes itself: it needs room in the table, and nothing else.
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

    // MARK: What it does

    /// To be called when a whole request has come on the connection.
    package mutating func asked(_ standing: inout Standing) {
        guard let place = standing.silent.take() else { return }
        silent.remove(place)
    }

    /// To be called once for each connection: when a user has shown his password on it, or, where no password is asked
    /// for, has registered a contact.
    ///
    /// - Returns: false when the account has its share of connections already; this one is still served, but counts as
    ///   unproved.
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

    /// To be called once, when the connection has gone.
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

    /// When the time of the next connection is up; `nil` when there is none that must hurry.
    package var nextDeadline: Instant? {
        let first = silent.oldest.map { $0.start + limits.firstRequest }
        let second = limits.authentication.flatMap { time in unproved.oldest.map { $0.start + time } }
        guard let first, let second else { return first ?? second }
        return min(first, second)
    }

    /// A connection whose time is up, and why. To be asked again after that one was removed, until it returns `nil`.
    package func expired(now: Instant) -> (number: UInt64, cause: Cause)? {
        if let entry = silent.oldest, entry.start + limits.firstRequest <= now { return (entry.number, .noRequest) }
        guard let time = limits.authentication, let entry = unproved.oldest, entry.start + time <= now else {
            return nil
        }
        return (entry.number, .notProved)
    }
}
