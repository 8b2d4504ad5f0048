package import Timekeeping

/// Keeps a limited number of answers for as long as they are valid.
package struct AnswerCache {
    private struct Entry {
        let answer: DNSAnswer
        let expiry: Instant
    }

    /// How long "nothing" and "failed" are kept: long enough to spare the name servers a storm of calls to a dead name.
    package static let negativeLifetime: Duration = .seconds(30)
    package static let failureLifetime: Duration = .seconds(2)
    /// Bounds for the time to live of records. Even one of 0 may serve the calls of the same moment.
    private static let lifetimes: ClosedRange<Duration> = .seconds(1) ... .seconds(86_400)

    private let capacity: Int
    private var entries: [DNSQuestion: Entry] = [:]

    package init(capacity: Int) { self.capacity = capacity }

    package var count: Int { entries.count }

    package func answer(to question: DNSQuestion, now: Instant) -> DNSAnswer? {
        guard let entry = entries[question], now < entry.expiry else { return nil }
        return entry.answer
    }

    /// Keeps an answer. `timeToLive` is that of its records, and not looked at for answers without records.
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

    /// Drops what has expired or, if nothing has, the eighth that expires first. This is rare, so it looks at all
    /// answers.
    private mutating func makeRoom(now: Instant) {
        entries = entries.filter { now < $0.value.expiry }
        guard entries.count >= capacity else { return }
        let victims = entries.sorted { $0.value.expiry < $1.value.expiry }.prefix(max(1, capacity / 8))
        for (question, _) in victims { entries[question] = nil }
    }
}
