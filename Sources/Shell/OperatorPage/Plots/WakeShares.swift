import PushDelivery

/// How many accepted pushes for calls woke a phone in time, by provider, for each minute of the last day.
struct WakeShares: Sendable {
    struct Counts: Sendable, Equatable {
        var pushes: Int32 = 0
        var within5: Int32 = 0
        var within10: Int32 = 0
        var within30: Int32 = 0

        static func += (left: inout Counts, right: Counts) {
            left.pushes &+= right.pushes
            left.within5 &+= right.within5
            left.within10 &+= right.within10
            left.within30 &+= right.within30
        }
    }

    static let minutes = 1440
    private var minute: Int64?
    /// For each provider that has sent a push, its counts of each minute.
    private var rings: [PushProvider: [Counts]] = [:]

    /// Adds the record of a call, if the provider has accepted the call's push.
    mutating func add(_ record: TimelineRecord, at seconds: Int64) {
        guard record.kind == .call, record.answer == .accepted || record.answer == .acceptedWithNewToken,
            let sent = record.steps.sent,
            let provider = PushProvider(rawValue: String(record.app.prefix { $0 != "/" }))
        else { return }
        advance(to: seconds)
        guard let minute else { return }
        let woke = record.steps.registered ?? (record.sign == nil ? nil : record.steps.invited)
        let wait = woke.map { Int64($0) - Int64(sent) } ?? .max
        var counts = Counts(pushes: 1)
        if wait <= 5000 { counts.within5 = 1 }
        if wait <= 10_000 { counts.within10 = 1 }
        if wait <= 30_000 { counts.within30 = 1 }
        let place = Int(minute % Int64(Self.minutes))
        rings[provider, default: [Counts](repeating: Counts(), count: Self.minutes)][place] += counts
    }

    /// Clears the counts of the minutes that have passed since the last call of the method.
    mutating func advance(to seconds: Int64) {
        let now = max(0, seconds / 60)
        guard let last = minute else {
            minute = now
            return
        }
        guard now > last else { return }
        for passed in max(last + 1, now - Int64(Self.minutes) + 1)...now {
            for provider in rings.keys { rings[provider]?[Int(passed % Int64(Self.minutes))] = Counts() }
        }
        minute = now
    }

    /// The counts of the last minutes, with the providers in the order of their names.
    func totals(of minutes: Int) -> [(provider: PushProvider, counts: Counts)] {
        guard let minute else { return [] }
        return rings.sorted { $0.key.rawValue < $1.key.rawValue }.map { provider, ring in
            var sum = Counts()
            for passed in max(0, minute - Int64(min(minutes, Self.minutes)) + 1)...minute {
                sum += ring[Int(passed % Int64(Self.minutes))]
            }
            return (provider, sum)
        }
    }
}
