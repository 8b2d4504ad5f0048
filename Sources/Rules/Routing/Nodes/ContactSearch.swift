package import Addressing
package import Bytes
package import Timekeeping

/// A search through all contacts of the store, in their order and in small pages.
package struct ContactSearch {
    /// A question about one page of contacts.
    package struct Question: Hashable, Sendable {
        /// The contacts that the answer must have; all other contacts of the page are left out.
        package enum Wanted: Hashable, Sendable {
            /// Contacts without push that have expired at `date`, and contacts with push that expire after `date` and
            /// before `refreshUntil`.
            case expiring(date: UnixTime, refreshUntil: UnixTime?)
            /// Contacts with push of users in the given domains (in lower case).
            case withPush(of: [ByteString])
        }

        package let number: UInt64
        /// The page begins after this contact; `nil` stands for the first page.
        package let after: DeviceID?
        package let limit: Int
        package let wanted: Wanted

        package init(number: UInt64, after: DeviceID?, limit: Int, wanted: Wanted) {
            (self.number, self.after, self.limit, self.wanted) = (number, after, limit, wanted)
        }
    }

    /// A pass from the first to the last contact.
    package struct Pass: Sendable {
        package let began: Moment
        package fileprivate(set) var after: DeviceID?
        /// The time of the next page; `nil` while a question waits for its answer.
        fileprivate var nextPage: Instant?
    }

    package private(set) var pass: Pass?
    /// The begin of the next pass; `nil` if no search is needed.
    private var nextPass: Instant?
    private var lastNumber: UInt64 = 0
    /// The time of the timer that is set.
    private var armed: Instant?

    /// A page has so few contacts that the store needs a few milliseconds. Ten pages a second cost little, and read ten
    /// million contacts in a quarter of an hour.
    private static let pageSize = 1000
    private static let pagePause: Duration = .milliseconds(100)
    private static let retryPause: Duration = .seconds(1)
    /// The shortest time between the end of a pass and the begin of the next.
    package static let passPause: Duration = .seconds(10)

    package init() {}

    /// Begins a new pass at the given time, or never if the time is `nil`. A running pass ends.
    package mutating func begin(at instant: Instant?) { (pass, nextPass) = (nil, instant) }

    /// The time at which the engine must set a timer; `nil` if an earlier timer is set, or if no search is needed.
    package mutating func timer() -> Instant? {
        guard let next = pass.map(\.nextPage) ?? nextPass, armed.map({ next < $0 }) ?? true else { return nil }
        armed = next
        return next
    }

    /// Handles the timer.
    ///
    /// - Returns: the question for the store; `nil` if no page is due.
    package mutating func due(_ wanted: Question.Wanted, now: Moment) -> Question? {
        if let armed, armed <= now.instant { self.armed = nil }
        if pass == nil, let nextPass, nextPass <= now.instant { pass = Pass(began: now, nextPage: now.instant) }
        guard let pass, let page = pass.nextPage, page <= now.instant else { return nil }
        self.pass?.nextPage = nil
        lastNumber += 1
        return Question(number: lastNumber, after: pass.after, limit: Self.pageSize, wanted: wanted)
    }

    /// Whether an answer belongs to the last question of the present search.
    package func isCurrent(_ question: Question) -> Bool {
        question.number == lastNumber && pass != nil && pass?.nextPage == nil
    }

    /// Goes on after the answer to the last question.
    ///
    /// - Parameters:
    ///   - last: the last contact of the page; `nil` if the page has the end of all contacts.
    ///   - pause: the additional pause before the next page.
    ///   - now: the present time.
    /// - Returns: the length of the pass, if this page was the last one. The next pass begins only after ``begin(at:)``.
    package mutating func answered(last: DeviceID?, pause: Duration, now: Instant) -> Duration? {
        guard let pass else { return nil }
        guard let last else {
            begin(at: nil)
            return now - pass.began.instant
        }
        self.pass?.after = last
        self.pass?.nextPage = now + Self.pagePause + pause
        return nil
    }

    /// Notes that the store did not answer. The search repeats the page later.
    package mutating func notAnswered(now: Instant) { pass?.nextPage = now + Self.retryPause }
}
