package import Addressing
package import Bytes
import Collections
package import Timekeeping

/// Remembers the answers of user sources outside the store, and decides when to ask the sources again.
///
/// By a cached answer, the daemon accepts a right password for ``UserRules/knownFor``, but refuses a user only for
/// ``UserRules/refusedFor``. Therefore changes soon take effect. A wrong password and an unknown user get the same
/// delay, so that strangers cannot learn which users exist.
///
/// While a source does not answer, the daemon uses the last good answer about a user, and sends the source one query at
/// a time. All tables of the ``UserCache`` have a maximum size. Unknown users are in a separate table, so that a flood
/// of invented names displaces no known user.
package struct UserCache: Sendable {
    /// The result of a search for a user in the remembered answers.
    package enum Finding: Hashable, Sendable {
        /// The user exists; if `mayRefuse` is false, only a newer answer of a source can refuse a wrong password.
        case known(DigestUser, mayRefuse: Bool)
        case unknown
        /// A source is being asked, and ``takeSettled()`` will return the user after the answer.
        case asking
        /// No source can say now whether the user exists, so the request must be refused with 503.
        case away
    }

    /// How new an answer must be for a decision about a user.
    package enum Wish: Hashable, Sendable {
        /// A cached answer is enough, unless it is older than the limits in ``UserRules``.
        case any
        /// The source must be asked again, because the password does not match the remembered answer.
        case newer
        /// The cache sends no second query, because the request has already waited for a query.
        case last
    }

    /// The sender that causes a query; each sender has a limit of open queries.
    package enum Asker: Hashable, Sendable {
        case trusted
        case source(IPAddress)
        /// The daemon itself needs the password, to register the user at a PBX.
        case agent
    }

    /// An event at a source of users, for the log.
    package enum SourceEvent: Hashable, Sendable {
        case away(source: Int, UserFault)
        case back(source: Int)
        case unusable(source: Int, AddressOfRecord, UserFault)
    }

    /// Counters of queries and their results since the start, for the metrics.
    package struct Figures: Hashable, Sendable {
        package var known = 0
        package var unknown = 0
        package var unusable = 0
        package var failed = 0
        /// The number of queries without an answer within ``UserRules/patience``.
        package var late = 0
        /// How often an old answer of a source decided, because no source gave a new answer.
        package var kept = 0
        /// The number of searches that ended without a result, because no source could say whether the user exists.
        package var refused = 0

        package init() {}
    }

    private struct Known {
        let user: DigestUser
        let checked: Instant
        let place: AgeList<AddressOfRecord>.Place
    }

    private struct Unknown {
        /// Whether all sources said that the user does not exist; false if a source's answer was unusable.
        let isCertain: Bool
        let checked: Instant
        let place: AgeList<AddressOfRecord>.Place
    }

    /// An open query for one user, which the sources in `chain` get one after the other.
    private struct Question {
        let asker: Asker
        let realm: ByteString
        let chain: [Int]
        var step = 0
        /// The number of the query, so that the deadlines of earlier queries about the same user have no effect.
        let number: UInt64
        /// The ticket of the query at the source; `nil` while the query waits in the source's queue.
        var ticket: UserTicket?
        var patience = DeadlineID.none
        /// Whether requests have waited ``UserRules/patience`` for the query, so that later requests do not wait.
        var isLate = false

        var source: Int { chain[step] }
    }

    private struct Source {
        let rules: UserRules.Source
        /// The queries that wait until the source has fewer than `rules.parallel` queries.
        var queue = Queue<(user: AddressOfRecord, number: UInt64)>()
        /// The number of queries that the source has not answered yet.
        var asked = 0
        var lastAnswer = Instant.distantPast
        /// The time of the next query to a source that is away, and the pause before this query; `nil` while the source
        /// answers.
        var rest: (until: Instant, pause: Duration)?

        func isResting(now: Instant) -> Bool { rest.map { now < $0.until || asked > 0 } ?? false }
    }

    /// A query that a source has not answered yet.
    private struct Asked {
        let user: AddressOfRecord
        let source: Int
        let since: Instant
        let end: DeadlineID
    }

    private enum Deadline {
        /// Requests have waited ``UserRules/patience`` for the answer about a user.
        case patience(AddressOfRecord, UInt64)
        /// The cache no longer expects the source's answer to a query.
        case end(UserTicket)
    }

    package let rules: UserRules
    private let algorithms: [DigestAlgorithm]
    private let functions: DigestFunctions
    private var known: [AddressOfRecord: Known] = [:]
    private var knownAges = AgeList<AddressOfRecord>()
    private var unknown: [AddressOfRecord: Unknown] = [:]
    private var unknownAges = AgeList<AddressOfRecord>()
    private var questions: [AddressOfRecord: Question] = [:]
    /// The unanswered queries of all sources, including queries that no request waits for.
    private var tickets: [UserTicket: Asked] = [:]
    private var shares: [Asker: Int] = [:]
    private var untrusted = 0
    private var sources: [Source]
    private var deadlines = DeadlineQueue<Deadline>()
    private var last: UInt64 = 0

    private var orders: [UserQuestion] = []
    private var settled: [AddressOfRecord] = []
    private var events: [SourceEvent] = []
    package private(set) var figures = Figures()

    /// The maximum numbers of open queries: in all, from one address, and from all phones together.
    private static let share = FairShare(of: 2000, ofOne: 100, ofUntrusted: 1500)
    /// The maximum number of remembered unknown users.
    private static let unknownLimit = 20_000
    /// The maximum length in bytes of a user name in a query.
    private static let longestName = 255
    /// How long the answer to a query is accepted; requests wait only ``UserRules/patience``.
    private static let longestQuestion: Duration = .seconds(10)
    private static let firstPause: Duration = .seconds(1)
    private static let longestPause: Duration = .seconds(8)

    package init(_ rules: UserRules, algorithms: [DigestAlgorithm], functions: DigestFunctions) {
        self.rules = rules
        self.algorithms = algorithms
        self.functions = functions
        sources = rules.sources.map { Source(rules: $0) }
    }

    /// Whether the settings have any source of users.
    package var isUsed: Bool { !sources.isEmpty }

    package var knownCount: Int { known.count }
    package var unknownCount: Int { unknown.count }
    package var openQuestions: Int { questions.count }
    package var awayCount: Int { sources.count { $0.rest != nil } }

    /// Whether a source may have the user, according to the remembered answers.
    package func mayExist(_ user: AddressOfRecord) -> Bool {
        guard isUsed, Self.isName(user.user), sources.contains(where: { $0.rules.serves(user.host) }) else {
            return false
        }
        return unknown[user]?.isCertain != true
    }

    /// The last good answer about the user, of any age, without a query.
    package func remembered(_ user: AddressOfRecord, realm: ByteString, now: Instant) -> DigestUser? {
        kept(user, realm, now: now)
    }

    // MARK: Finding

    /// Finds a user in the remembered answers, and starts a query if no answer is new enough.
    package mutating func find(
        _ user: AddressOfRecord, realm: ByteString, for asker: Asker, _ wish: Wish = .any, now: Instant
    ) -> Finding {
        guard Self.isName(user.user) else { return .unknown }
        let chain = sources.indices.filter { sources[$0].rules.serves(user.host) }
        guard let first = chain.first else { return .unknown }
        let entry = known[user]
        if let entry, entry.user.realm == realm {
            let age = now - entry.checked
            if age <= rules.refusedFor { return .known(entry.user, mayRefuse: true) }
            if age <= rules.knownFor, wish != .newer { return .known(entry.user, mayRefuse: false) }
        }
        if let found = unknown[user], now - found.checked <= rules.refusedFor {
            if found.isCertain { return .unknown }
            return wish == .newer ? refused() : lastGood(user, realm, now: now)
        }
        guard wish != .last else { return lastGood(user, realm, now: now) }
        let isResting = sources[first].isResting(now: now)
        if let question = questions[user] {
            if question.isLate { return wish == .newer ? refused() : lastGood(user, realm, now: now) }
        } else {
            guard !isResting, hasRoom(for: asker) else {
                return wish == .newer ? refused() : lastGood(user, realm, now: now)
            }
            begin(user.compacted(), realm: realm.compacted(), chain, for: asker, now: now)
        }
        // While the source is away, an older answer is used immediately, and the request does not wait for the new
        // query.
        if sources[first].rest != nil, wish == .any, let known = kept(user, realm, now: now) {
            figures.kept += 1
            return .known(known, mayRefuse: false)
        }
        return isResting ? refused() : .asking
    }

    /// The last good answer about the user, of any age; ``Finding/away`` without a good answer.
    private mutating func lastGood(_ user: AddressOfRecord, _ realm: ByteString, now: Instant) -> Finding {
        guard let known = kept(user, realm, now: now) else { return refused() }
        figures.kept += 1
        return .known(known, mayRefuse: false)
    }

    private func kept(_ user: AddressOfRecord, _ realm: ByteString, now: Instant) -> DigestUser? {
        guard let entry = known[user], entry.user.realm == realm, now - entry.checked <= rules.keptFor else {
            return nil
        }
        return entry.user
    }

    private mutating func refused() -> Finding {
        figures.refused += 1
        return .away
    }

    /// Whether a source can be asked for the name: the name is UTF-8 without control characters, and has at most 255
    /// bytes.
    private static func isName(_ name: ByteString) -> Bool {
        !name.isEmpty && name.count <= longestName && name.allSatisfy { $0 >= 0x20 && $0 != 0x7f }
            && String(validating: name.array, as: UTF8.self) != nil
    }

    // MARK: Questions

    /// Whether the registration client that registers users at PBXs may send a further query now. Half of a source's
    /// parallel queries are reserved for phones, because a phone's request fails without a timely answer.
    package var hasRoomForAgent: Bool {
        shares[.agent, default: 0] < max(1, (sources.map(\.rules.parallel).min() ?? 1) / 2)
    }

    private func hasRoom(for asker: Asker) -> Bool {
        let own = asker == .trusted ? 0 : shares[asker, default: 0]
        let taken = FairShare.Taken(all: questions.count, untrusted: untrusted, own: own)
        return Self.share.refusal(beside: taken, isTrusted: asker == .trusted) == nil
    }

    private mutating func begin(
        _ user: AddressOfRecord, realm: ByteString, _ chain: [Int], for asker: Asker, now: Instant
    ) {
        last &+= 1
        var question = Question(asker: asker, realm: realm, chain: chain, number: last)
        question.patience = deadlines.schedule(.patience(user, last), at: now + rules.patience)
        questions[user] = question
        if asker != .trusted {
            shares[asker, default: 0] += 1
            untrusted += 1
        }
        enqueue(user, question, now: now)
    }

    private mutating func enqueue(_ user: AddressOfRecord, _ question: Question, now: Instant) {
        sources[question.source].queue.append((user, question.number))
        askNext(question.source, now: now)
    }

    /// Passes queued queries to a source, up to the source's limit; a source that was away gets one query.
    private mutating func askNext(_ index: Int, now: Instant) {
        while sources[index].asked < (sources[index].rest == nil ? sources[index].rules.parallel : 1),
            let (user, number) = sources[index].queue.popFirst()
        {
            guard var question = questions[user], question.number == number, question.source == index else { continue }
            last &+= 1
            let ticket = UserTicket(last)
            question.ticket = ticket
            questions[user] = question
            tickets[ticket] = Asked(
                user: user, source: index, since: now,
                end: deadlines.schedule(.end(ticket), at: now + Self.longestQuestion))
            sources[index].asked += 1
            orders.append(
                UserQuestion(
                    ticket: ticket, source: index, name: user.user, domain: user.host, realm: question.realm))
        }
    }

    private mutating func end(_ user: AddressOfRecord) {
        guard let question = questions.removeValue(forKey: user) else { return }
        deadlines.cancel(question.patience)
        settled.append(user)
        guard question.asker != .trusted else { return }
        untrusted -= 1
        let left = shares[question.asker, default: 1] - 1
        shares[question.asker] = left > 0 ? left : nil
    }

    // MARK: Events

    /// Handles a source's answer or failure, and ignores answers to abandoned queries.
    package mutating func answered(_ ticket: UserTicket, _ answer: UserAnswer, now: Instant) {
        guard let asked = tickets.removeValue(forKey: ticket) else { return }
        let (user, source) = (asked.user, asked.source)
        deadlines.cancel(asked.end)
        sources[source].asked -= 1
        if case .away(let fault) = answer {
            figures.failed += 1
            isAway(source, fault, now: now)
        } else {
            sources[source].lastAnswer = now
            if sources[source].rest != nil { events.append(.back(source: source)) }
            sources[source].rest = nil
        }
        if let question = questions[user], question.ticket == ticket {
            judge(answer, about: user, question, now: now)
        }
        askNext(source, now: now)
    }

    private mutating func judge(_ answer: UserAnswer, about user: AddressOfRecord, _ question: Question, now: Instant) {
        switch answer {
        case .found(let secrets):
            let made = secrets.user(
                named: user.user, realm: question.realm, algorithms: algorithms, functions: functions)
            switch made {
            case .success(let account?):
                figures.known += 1
                remember(account, as: user, now: now)
                end(user)
            case .success(nil): next(after: question, user, now: now)
            case .failure(let fault): unusable(fault, user, question, now: now)
            }
        case .unknown: next(after: question, user, now: now)
        case .unusable(let fault): unusable(fault, user, question, now: now)
        // If a source fails, the next source is not asked, because it may have another user with the same name.
        case .away: end(user)
        }
    }

    /// Asks the next source if a source does not have the user; after the last source, remembers that the user is
    /// unknown.
    private mutating func next(after question: Question, _ user: AddressOfRecord, now: Instant) {
        var question = question
        question.step += 1
        question.ticket = nil
        guard question.step < question.chain.count else {
            figures.unknown += 1
            forget(user, isKnown: true)
            forget(user, isKnown: false)
            remember(user, isCertain: true, now: now)
            return end(user)
        }
        questions[user] = question
        guard !sources[question.source].isResting(now: now) else { return end(user) }
        enqueue(user, question, now: now)
    }

    private mutating func unusable(_ fault: UserFault, _ user: AddressOfRecord, _ question: Question, now: Instant) {
        figures.unusable += 1
        events.append(.unusable(source: question.source, user, fault))
        // The last good answer about the user stays valid after an unusable answer.
        forget(user, isKnown: false)
        remember(user, isCertain: false, now: now)
        end(user)
    }

    /// Marks a source as away, ends the queries in its queue, and sets the time of the next try.
    private mutating func isAway(_ index: Int, _ fault: UserFault, now: Instant) {
        if let rest = sources[index].rest {
            // The pause is doubled only by a failure after the pause, because parallel queries often fail together.
            if now >= rest.until {
                let pause = min(rest.pause * 2, Self.longestPause)
                sources[index].rest = (now + pause, pause)
            }
        } else {
            events.append(.away(source: index, fault))
            sources[index].rest = (now + Self.firstPause, Self.firstPause)
        }
        while let (user, number) = sources[index].queue.popFirst() {
            if let question = questions[user], question.number == number, question.source == index { end(user) }
        }
    }

    /// Marks the source of a late query as away, unless the source has answered a later query.
    private mutating func isSilent(_ asked: Asked, now: Instant) {
        if sources[asked.source].lastAnswer < asked.since { isAway(asked.source, .silent, now: now) }
    }

    package var nextDeadline: Instant? { deadlines.nextDeadline }

    package mutating func deadlineReached(now: Instant) {
        while let deadline = deadlines.popExpired(now: now) {
            switch deadline {
            case .patience(let user, let number):
                guard let question = questions[user], question.number == number else { continue }
                // A query without a ticket waits in the queue of a busy source.
                guard let asked = question.ticket.flatMap({ tickets[$0] }) else {
                    end(user)
                    continue
                }
                figures.late += 1
                questions[user]?.isLate = true
                settled.append(user)
                isSilent(asked, now: now)
            case .end(let ticket):
                guard let asked = tickets.removeValue(forKey: ticket) else { continue }
                sources[asked.source].asked -= 1
                isSilent(asked, now: now)
                if questions[asked.user]?.ticket == ticket { end(asked.user) }
                askNext(asked.source, now: now)
            }
        }
    }

    // MARK: Results

    /// Removes and returns the queries for the sources.
    package mutating func takeOrders() -> [UserQuestion] {
        defer { orders = [] }
        return orders
    }

    /// Removes and returns the users about whom the sources have answered, so that waiting requests can continue.
    package mutating func takeSettled() -> [AddressOfRecord] {
        defer { settled = [] }
        return settled
    }

    package mutating func takeEvents() -> [SourceEvent] {
        defer { events = [] }
        return events
    }

    // MARK: Memory

    private mutating func remember(_ account: DigestUser, as user: AddressOfRecord, now: Instant) {
        forget(user, isKnown: true)
        forget(user, isKnown: false)
        while known.count >= rules.remembered, let oldest = knownAges.oldest { forget(oldest, isKnown: true) }
        known[user] = Known(user: account, checked: now, place: knownAges.append(user))
    }

    private mutating func remember(_ user: AddressOfRecord, isCertain: Bool, now: Instant) {
        while unknown.count >= Self.unknownLimit, let oldest = unknownAges.oldest { forget(oldest, isKnown: false) }
        unknown[user] = Unknown(isCertain: isCertain, checked: now, place: unknownAges.append(user))
    }

    private mutating func forget(_ user: AddressOfRecord, isKnown: Bool) {
        if isKnown {
            if let entry = known.removeValue(forKey: user) { knownAges.remove(entry.place) }
        } else if let entry = unknown.removeValue(forKey: user) {
            unknownAges.remove(entry.place)
        }
    }
}

extension UserRules.Source {
    fileprivate func serves(_ domain: ByteString) -> Bool { domains.isEmpty || domains.contains(domain) }
}
