package import Addressing
package import Timekeeping

/// The duties that one node has for all nodes, and the search for contacts whose node has ended.
///
/// The store gives the duties to one living node. After the end of a node, the node with the duties searches the contacts
/// of the store in their order, in small pages. The search finds contacts without push that have expired, and contacts
/// that need a refresh push. The search begins again and again, until all contacts of the ended node must have expired.
package struct NodeDuties {
    /// A question about one page of contacts.
    package struct Question: Hashable, Sendable {
        package let number: UInt64
        /// The page begins after this contact; `nil` stands for the first page.
        package let after: DeviceID?
        package let limit: Int
        /// The present time: a contact without push that expires before is wanted.
        package let date: UnixTime
        /// A contact with push that expires after the present time and before this time is wanted too.
        package let refreshUntil: UnixTime?

        package init(number: UInt64, after: DeviceID?, limit: Int, date: UnixTime, refreshUntil: UnixTime?) {
            (self.number, self.after, self.limit) = (number, after, limit)
            (self.date, self.refreshUntil) = (date, refreshUntil)
        }
    }

    /// Whether this node has the duties.
    package private(set) var isHeld = false
    /// The time since which this node cares for the contacts of ended nodes. Another node may have sent the pushes that
    /// were due before.
    package private(set) var since = Instant.distantPast
    private var pass: Pass?
    /// The begin of the next pass; `nil` if no search is needed.
    private var nextPass: Instant?
    /// The time when the last contact expires that can belong to an ended node; `nil` before the first whole pass.
    private var end: UnixTime?
    /// The length of the last whole pass.
    private var length: Duration?
    private var lastNumber: UInt64 = 0
    /// The time of the timer that is set.
    private var armed: Instant?

    private struct Pass {
        let began: Moment
        var after: DeviceID?
        /// The latest expiry of all contacts so far.
        var latest = UnixTime(milliseconds: 0)
        /// The time of the next page; `nil` while a question waits for its answer.
        var nextPage: Instant?
    }

    /// A page has so few contacts that the store needs a few milliseconds. Ten pages a second cost little, and read ten
    /// million contacts in a quarter of an hour.
    private static let pageSize = 1000
    private static let pagePause: Duration = .milliseconds(100)
    /// The pause for each user that a page makes the node read.
    private static let userPause: Duration = .milliseconds(1)
    private static let retryPause: Duration = .seconds(1)
    /// The shortest time between the begins of two passes.
    private static let passPause: Duration = .seconds(10)
    /// The length of the first pass, as the search assumes.
    private static let assumedLength: Duration = .seconds(1000)

    package init() {}

    /// Notes that this node got the duties.
    package mutating func gained(now: Instant) {
        isHeld = true
        runEnded(now: now)
    }

    /// Notes that this node does not have the duties any more.
    package mutating func lost() { (isHeld, pass, nextPass) = (false, nil, nil) }

    /// Notes that the run of another node has ended, or that unknown runs may have ended.
    package mutating func runEnded(now: Instant) {
        since = now
        guard isHeld else { return }
        (pass, end, nextPass) = (nil, nil, now)
    }

    /// The time at which the engine must set a timer; `nil` if an earlier timer is set, or if no search is needed.
    package mutating func timer() -> Instant? {
        guard let next = pass.map(\.nextPage) ?? nextPass, armed.map({ next < $0 }) ?? true else { return nil }
        armed = next
        return next
    }

    /// Handles the timer.
    ///
    /// - Parameters:
    ///   - lead: how long before its expiry a contact needs a refresh push; zero if no contact does.
    ///   - now: the present time.
    /// - Returns: the question for the store; `nil` if no page is due.
    package mutating func due(lead: Duration, now: Moment) -> Question? {
        if let armed, armed <= now.instant { self.armed = nil }
        if pass == nil, let nextPass, nextPass <= now.instant { pass = Pass(began: now, nextPage: now.instant) }
        guard var pass, let page = pass.nextPage, page <= now.instant else { return nil }
        pass.nextPage = nil
        self.pass = pass
        lastNumber += 1
        // A contact must be found in the pass before its refresh push is due.
        let ahead = lead + (length.map { $0 * 3 + Self.passPause * 12 } ?? Self.assumedLength)
        return Question(
            number: lastNumber, after: pass.after, limit: Self.pageSize, date: now.date,
            refreshUntil: lead > .zero ? now.date + ahead : nil)
    }

    /// Whether an answer belongs to the last question of the present search.
    package func isCurrent(_ question: Question) -> Bool {
        question.number == lastNumber && pass != nil && pass?.nextPage == nil
    }

    /// Goes on after the answer to the last question.
    ///
    /// - Parameters:
    ///   - last: the last contact of the page; `nil` if the page has the end of all contacts.
    ///   - latest: the latest expiry of all contacts on the page.
    ///   - users: the number of users whom the node reads now.
    ///   - now: the present time.
    package mutating func answered(last: DeviceID?, latest: UnixTime, users: Int, now: Moment) {
        guard var pass else { return }
        pass.latest = max(pass.latest, latest)
        pass.nextPage = now.instant + Self.pagePause + Self.userPause * users
        if let last {
            pass.after = last
            self.pass = pass
            return
        }
        let length = now.instant - pass.began.instant
        let end = end ?? pass.latest
        (self.pass, self.length, self.end) = (nil, length, end)
        nextPass = pass.began.date > end ? nil : now.instant + max(Self.passPause, length)
    }

    /// Notes that the store did not answer. The search repeats the page later.
    package mutating func notAnswered(now: Instant) { pass?.nextPage = now + Self.retryPause }
}
