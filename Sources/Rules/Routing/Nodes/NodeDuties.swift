package import Addressing
package import Timekeeping

/// The duties that one node has for all nodes, and the search for contacts whose node has ended.
///
/// The store gives the duties to one living node. After the end of a node, the node with the duties searches the contacts
/// of the store. The search finds contacts without push that have expired, and contacts that need a refresh push. The
/// search begins again and again, until all contacts of the ended node must have expired.
package struct NodeDuties {
    /// Whether this node has the duties.
    package private(set) var isHeld = false
    /// The time since which this node cares for the contacts of ended nodes. Another node may have sent the pushes that
    /// were due before.
    package private(set) var since = Instant.distantPast
    private var search = ContactSearch()
    /// The latest expiry of all contacts that the pass has read.
    private var latest = UnixTime(milliseconds: 0)
    /// The time when the last contact expires that can belong to an ended node; `nil` before the first whole pass.
    private var end: UnixTime?
    /// The length of the last whole pass.
    private var length: Duration?

    /// The pause for each user that a page makes the node read.
    private static let userPause: Duration = .milliseconds(1)
    /// The length of the first pass, as the search assumes.
    private static let assumedLength: Duration = .seconds(1000)

    package init() {}

    /// Notes that this node got the duties.
    package mutating func gained(now: Instant) {
        isHeld = true
        runEnded(now: now)
    }

    /// Notes that this node does not have the duties any more.
    package mutating func lost() {
        isHeld = false
        search.begin(at: nil)
    }

    /// Notes that the run of another node has ended, or that unknown runs may have ended.
    package mutating func runEnded(now: Instant) {
        since = now
        guard isHeld else { return }
        end = nil
        search.begin(at: now)
    }

    /// The time at which the engine must set a timer; `nil` if an earlier timer is set, or if no search is needed.
    package mutating func timer() -> Instant? { search.timer() }

    /// Handles the timer.
    ///
    /// - Parameters:
    ///   - lead: how long before its expiry a contact needs a refresh push; zero if no contact does.
    ///   - now: the present time.
    /// - Returns: the question for the store; `nil` if no page is due.
    package mutating func due(lead: Duration, now: Moment) -> ContactSearch.Question? {
        // A contact must be found in the pass before its refresh push is due.
        let ahead = lead + (length.map { $0 * 3 + ContactSearch.passPause * 12 } ?? Self.assumedLength)
        return search.due(.expiring(date: now.date, refreshUntil: lead > .zero ? now.date + ahead : nil), now: now)
    }

    /// Whether an answer belongs to the last question of the present search.
    package func isCurrent(_ question: ContactSearch.Question) -> Bool { search.isCurrent(question) }

    /// Goes on after the answer to the last question.
    ///
    /// - Parameters:
    ///   - last: the last contact of the page; `nil` if the page has the end of all contacts.
    ///   - latest: the latest expiry of all contacts on the page.
    ///   - users: the number of users whom the node reads now.
    ///   - now: the present time.
    package mutating func answered(last: DeviceID?, latest: UnixTime, users: Int, now: Moment) {
        guard let pass = search.pass else { return }
        self.latest = pass.after == nil ? latest : max(self.latest, latest)
        let length = search.answered(last: last, pause: Self.userPause * users, now: now.instant)
        guard let length else { return }
        let end = end ?? self.latest
        (self.length, self.end) = (length, end)
        if pass.began.date <= end { search.begin(at: now.instant + max(ContactSearch.passPause, length)) }
    }

    /// Notes that the store did not answer. The search repeats the page later.
    package mutating func notAnswered(now: Instant) { search.notAnswered(now: now) }
}
