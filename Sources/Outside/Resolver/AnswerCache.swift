package import Timekeeping

/// Keeps a limited number of DNS answers while they are valid.
package struct AnswerCache {
    private struct Entry {
        let answer: DNSAnswer
        let expiry: Instant
    }

    /// How long a failure, or an answer without records, is kept. SIP requests to a name that does not exist then do
    /// not each cause a DNS query.
    package static let negativeLifetime: Duration = .seconds(30)
    package static let failureLifetime: Duration = .seconds(2)
    /// The minimum and maximum time for which an answer with records is kept. Because of the minimum, a DNS record with
    /// a time to live of 0 is used for all look-ups within one second.
    private static let lifetimes: ClosedRange<Duration> = .seconds(1) ... .seconds(86_400)

    private let capacity: Int
    private var entries: [DNSQuestion: Entry] = [:]

    package init(capacity: Int) { self.capacity = capacity }

    package var count: Int { entries.count }

    package func answer(to question: DNSQuestion, now: Instant) -> DNSAnswer? {
        guard let entry = entries[question], now < entry.expiry else { return nil }
        return entry.answer
    }

    /// Stores an answer, with the shortest time to live of its records. For a DNS answer without records, `timeToLive`
    /// is ignored.
    package mutating func store(
        _ answer: DNSAnswer, to question: DNSQuestion, timeToLive: Duration, now: Instant
    ) {
        let lifetime =
            switch answer {
            case .nothing: Self.negativeLifetime
            case .failed: Self.failureLifetime
            case .naptr, .srv, .addresses: min(max(timeToLive, Self.lifetimes.lowerBound), Self.lifetimes.upperBound)
            }
        if entries.count >= capacity, entries[question] == nil { makeRoom(now: now) }
        entries[question] = Entry(answer: answer, expiry: now + lifetime)
    }

    /// Drops all expired answers. If no answer has expired, drops an eighth of the answers: the answers that expire
    /// first. ``makeRoom(now:)`` is slow, but rarely needed.
    private mutating func makeRoom(now: Instant) {
        entries = entries.filter { now < $0.value.expiry }
        guard entries.count >= capacity else { return }
        let victims = entries.sorted { $0.value.expiry < $1.value.expiry }.prefix(max(1, capacity / 8))
        for (question, _) in victims { entries[question] = nil }
    }
}
