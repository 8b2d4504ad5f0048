package import Timekeeping

/// Keeps a limited number of DNS answers while they are valid.
package struct AnswerCache {
    private struct Entry {
        let answer: DNSAnswer
        let expiry: Instant
    }

    /// How long the answer "nothing" is kept, and how long a failure. The times protect the name servers from many
    /// calls to a dead name.
    package static let negativeLifetime: Duration = .seconds(30)
    package static let failureLifetime: Duration = .seconds(2)
    /// The limits between which a record's time to live is used. Even a record with the time 0 may serve other calls of
    /// the same moment.
    private static let lifetimes: ClosedRange<Duration> = .seconds(1) ... .seconds(86_400)

    private let capacity: Int
    private var entries: [DNSQuestion: Entry] = [:]

    package init(capacity: Int) { self.capacity = capacity }

    package var count: Int { entries.count }

    package func answer(to question: DNSQuestion, now: Instant) -> DNSAnswer? {
        guard let entry = entries[question], now < entry.expiry else { return nil }
        return entry.answer
    }

    /// Keeps an answer. `timeToLive` is the shortest time of its records. For an answer without records it is ignored.
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

    /// Drops expired answers. If none has expired, drops the eighth of the answers that expires first. This examines
    /// all answers, but is rare.
    private mutating func makeRoom(now: Instant) {
        entries = entries.filter { now < $0.value.expiry }
        guard entries.count >= capacity else { return }
        let victims = entries.sorted { $0.value.expiry < $1.value.expiry }.prefix(max(1, capacity / 8))
        for (question, _) in victims { entries[question] = nil }
    }
}
