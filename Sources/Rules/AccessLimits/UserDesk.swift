package import Addressing
import Bytes
package import ProxyPolicy
package import Registration
package import Routing
import SIPGrammar
import SIPTransactions
package import Telemetry
package import Timekeeping

/// Holds requests and HTTP logins until a source of users has answered about their user, and caches the answers.
///
/// A waiting request has a transaction only if its sender is trusted. A request may wait only if its digest nonce has
/// proved its source address. Therefore nobody can use up the limit of another address.
package struct UserDesk {
    package var cache: UserCache
    private var waiting: [AddressOfRecord: [IncomingRequest]] = [:]
    private var logins: [AddressOfRecord: [WaitingLogin]] = [:]
    private var loginCounts: [IPAddress: Int] = [:]
    private var counts: [UserCache.Asker: Int] = [:]
    private var untrusted = 0
    package private(set) var count = 0
    private var bytes = 0
    private var loginCount = 0
    /// The instant at which the engine's timer fires; `nil` if no timer is set.
    private var armed: Instant?
    /// Limits the log lines about a source of users whose answers for single users are unusable.
    package var userLines = LogRateLimit()
    /// Limits the log lines about sources of users that stop or start to answer.
    package var sourceLines = LogRateLimit()

    /// The maximum numbers of waiting requests: in all, from one address, and from all phones together.
    private static let share = FairShare(of: 2000, ofOne: 100, ofUntrusted: 1500)
    private static let longest = 8 << 20
    private static let perUser = 32
    /// The maximum numbers of waiting logins: in all, and from one address.
    private static let loginShare = FairShare(of: 100, ofOne: 10, ofUntrusted: 100)

    package init(_ settings: ProxySettings, functions: DigestFunctions) {
        cache = UserCache(settings.users, algorithms: settings.digest.algorithms, functions: functions)
    }

    private struct WaitingLogin {
        let ticket: LoginTicket
        let source: IPAddress
    }

    package enum Admission: Hashable, Sendable {
        case waits
        /// The request is a retransmission of a waiting request.
        case waitsAlready
        case noRoom
    }

    /// Holds a request until the sources of users have answered about its user, if the table of waiting requests has
    /// room.
    package mutating func hold(_ incoming: IncomingRequest, for user: AddressOfRecord) -> Admission {
        let others = waiting[user] ?? []
        if others.contains(where: { $0.key == incoming.key && $0.flow == incoming.flow }) { return .waitsAlready }
        let asker = UserCache.Asker(incoming)
        let size = incoming.request.frame.bytes.count
        let taken = FairShare.Taken(
            all: count, untrusted: untrusted, own: asker == .trusted ? 0 : counts[asker, default: 0])
        guard others.count < Self.perUser, bytes + size <= Self.longest,
            Self.share.refusal(beside: taken, isTrusted: asker == .trusted) == nil
        else { return .noRoom }
        waiting[user.compacted(), default: []].append(incoming)
        count(incoming, by: 1)
        return .waits
    }

    /// Holds a login until the sources of users have answered; returns false if too many logins wait, in all or from
    /// one address.
    package mutating func hold(_ login: LoginTicket, for user: AddressOfRecord, from source: IPAddress) -> Bool {
        let source = source.source
        let taken = FairShare.Taken(all: loginCount, untrusted: loginCount, own: loginCounts[source, default: 0])
        guard Self.loginShare.refusal(beside: taken, isTrusted: false) == nil else { return false }
        logins[user, default: []].append(WaitingLogin(ticket: login, source: source))
        loginCount += 1
        loginCounts[source, default: 0] += 1
        return true
    }

    /// Removes and returns the requests and logins that wait for a user.
    package mutating func take(_ user: AddressOfRecord) -> (requests: [IncomingRequest], logins: [LoginTicket]) {
        let requests = waiting.removeValue(forKey: user) ?? []
        for incoming in requests { count(incoming, by: -1) }
        let logins = logins.removeValue(forKey: user) ?? []
        loginCount -= logins.count
        for login in logins {
            let left = loginCounts[login.source, default: 1] - 1
            loginCounts[login.source] = left > 0 ? left : nil
        }
        return (requests.map(\.afterWaiting), logins.map(\.ticket))
    }

    /// Removes and returns the waiting requests of a closed connection, because they can no longer be answered.
    package mutating func flowEnded(_ flow: Flow) -> [IncomingRequest] {
        guard count > 0 else { return [] }
        var ended: [IncomingRequest] = []
        for (user, requests) in waiting {
            let gone = requests.filter { $0.flow == flow }
            guard !gone.isEmpty else { continue }
            let left = requests.filter { $0.flow != flow }
            waiting[user] = left.isEmpty ? nil : left
            ended += gone
        }
        for incoming in ended { count(incoming, by: -1) }
        return ended
    }

    private mutating func count(_ incoming: IncomingRequest, by change: Int) {
        count += change
        bytes += change * incoming.request.frame.bytes.count
        let asker = UserCache.Asker(incoming)
        guard asker != .trusted else { return }
        untrusted += change
        let left = counts[asker, default: 0] + change
        counts[asker] = left > 0 ? left : nil
    }

    /// The instant at which the engine must set a new timer; `nil` if the engine's present timer fires early enough.
    package mutating func nextTimer() -> Instant? {
        guard let next = cache.nextDeadline, armed.map({ next < $0 }) ?? true else { return nil }
        armed = next
        return next
    }

    package mutating func timerFired() { armed = nil }
}

extension UserCache.Asker {
    package init(_ incoming: IncomingRequest) {
        self = incoming.isTrusted ? .trusted : .source(incoming.flow.remote.address.source)
    }
}

/// The number of an HTTP login that waits until the sources of users have answered.
package struct LoginTicket: Hashable, Sendable {
    package let number: UInt64
    package init(_ number: UInt64) { self.number = number }
}
