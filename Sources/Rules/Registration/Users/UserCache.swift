package import Addressing
package import Bytes
import Collections
package import Timekeeping

/// The answers of sources outside the store about users, and the open questions.
///
/// A known user is admitted by the last answer for ``UserRules/knownFor``. Nobody is refused by an answer that is older
/// than ``UserRules/refusedFor``: a changed password and a new user count at once. Both kinds of answer thus give a
/// stranger the same delay, so that the delay does not tell which users exist.
///
/// While a source is away, the last good answer counts, and one question at a time tries the source again. There is one
/// question for one user at a time. All tables have a maximum size, and unknown users have a table of their own.
package struct UserCache: Sendable {
    /// The present knowledge about a user.
    package enum Finding: Hashable, Sendable {
        /// The user. Unless the answer `mayRefuse`, a wrong password must be checked against a newer one.
        case known(DigestUser, mayRefuse: Bool)
        case unknown
        /// A source is being asked. ``takeSettled()`` will have the user.
        case asking
        /// No source can say whether the user exists: refuse for now.
        case away
    }

    /// How a user is looked for.
    package enum Wish: Hashable, Sendable {
        /// The answer may be remembered.
        case any
        /// The password does not match the remembered answer, so the user is asked for again.
        case newer
        /// A question was asked for this request, so no other one is asked.
        case last
    }

    /// Who causes a question: its share of the questions is counted.
    package enum Asker: Hashable, Sendable {
        case trusted
        case source(IPAddress)
    }

    /// News of a source, for the log.
    package enum News: Hashable, Sendable {
        case away(source: Int, UserFault)
        case back(source: Int)
        case unusable(source: Int, AddressOfRecord, UserFault)
    }

    /// The numbers of events since the start.
    package struct Figures: Hashable, Sendable {
        package var known = 0
        package var unknown = 0
        package var unusable = 0
        package var failed = 0
        /// Questions without an answer in time.
        package var late = 0
        /// Users who were admitted or refused by an older answer because the source was away.
        package var kept = 0
        /// Users who could not be judged.
        package var refused = 0

        package init() {}
    }

    private struct Known {
        let user: DigestUser
        let checked: Instant
        let place: AgeList<AddressOfRecord>.Place
    }

    private struct Unknown {
        /// Whether the source said that there is no such user. Otherwise its answer was unusable.
        let isCertain: Bool
        let checked: Instant
        let place: AgeList<AddressOfRecord>.Place
    }

    /// An open question. It is asked of one source after the other.
    private struct Question {
        let asker: Asker
        let realm: ByteString
        let chain: [Int]
        var step = 0
        /// The number of the question, so that deadlines of earlier ones do nothing.
        let number: UInt64
        /// The ticket, while a source has the question.
        var ticket: UserTicket?
        var patience = DeadlineID.none
        /// Whether requests have waited long enough for this question. Further ones do not wait for it.
        var isLate = false

        var source: Int { chain[step] }
    }

    private struct Source {
        let rules: UserRules.Source
        /// Questions that wait for their turn.
        var queue = Queue<(user: AddressOfRecord, number: UInt64)>()
        /// Questions that the source has.
        var asked = 0
        var lastAnswer = Instant.distantPast
        /// When the source may be tried again; `nil` while it answers.
        var rest: (until: Instant, pause: Duration)?

        func isResting(now: Instant) -> Bool { rest.map { now < $0.until || asked > 0 } ?? false }
    }

    /// A question that a source has.
    private struct Asked {
        let user: AddressOfRecord
        let source: Int
        let since: Instant
        let end: DeadlineID
    }

    private enum Deadline {
        /// The requests that wait for the user have waited long enough.
        case patience(AddressOfRecord, UInt64)
        /// The question is given up.
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
    /// The questions that sources have. A question may have ended before its answer.
    private var tickets: [UserTicket: Asked] = [:]
    private var shares: [Asker: Int] = [:]
    private var untrusted = 0
    private var sources: [Source]
    private var deadlines = DeadlineQueue<Deadline>()
    private var last: UInt64 = 0

    private var orders: [UserQuestion] = []
    private var settled: [AddressOfRecord] = []
    private var news: [News] = []
    package private(set) var figures = Figures()

    /// The maximum numbers of questions: in all, of one address, of all phones.
    private static let share = FairShare(of: 2000, ofOne: 100, ofUntrusted: 1500)
    /// The maximum number of remembered unknown users.
    private static let unknownLimit = 20_000
    /// The longest name in bytes that is asked for.
    private static let longestName = 255
    /// How long a source may keep a question. A late answer counts, but nobody waits for it.
    private static let longestQuestion: Duration = .seconds(10)
    private static let firstPause: Duration = .seconds(1)
    private static let longestPause: Duration = .seconds(8)

    package init(_ rules: UserRules, algorithms: [DigestAlgorithm], functions: DigestFunctions) {
        self.rules = rules
        self.algorithms = algorithms
        self.functions = functions
        sources = rules.sources.map { Source(rules: $0) }
    }

    /// Whether any source is set up.
    package var isUsed: Bool { !sources.isEmpty }

    package var knownCount: Int { known.count }
    package var unknownCount: Int { unknown.count }
    package var openQuestions: Int { questions.count }
    package var awayCount: Int { sources.count { $0.rest != nil } }

    /// Whether a source may have the user. No source is asked.
    package func mayExist(_ user: AddressOfRecord) -> Bool {
        guard isUsed, Self.isName(user.user), sources.contains(where: { $0.rules.serves(user.host) }) else {
            return false
        }
        return unknown[user]?.isCertain != true
    }

    // MARK: Finding

    /// Looks for a user, and asks the sources if they have to be asked.
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
        // A user with an older answer does not wait for a source that may still be away.
        if sources[first].rest != nil, wish == .any, let known = kept(user, realm, now: now) {
            figures.kept += 1
            return .known(known, mayRefuse: false)
        }
        return isResting ? refused() : .asking
    }

    /// The last answer about the user, although it is old.
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

    /// Whether a source can be asked for this name.
    private static func isName(_ name: ByteString) -> Bool {
        !name.isEmpty && name.count <= longestName && name.allSatisfy { $0 >= 0x20 && $0 != 0x7f }
            && String(validating: name.array, as: UTF8.self) != nil
    }

    // MARK: Questions

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

    /// Passes waiting questions to a source that has room for them. A source that was away gets one.
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

    /// A source has answered, or failed to. An answer that nobody needs any more is dropped.
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
            if sources[source].rest != nil { news.append(.back(source: source)) }
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
        // A later source may have another user of that name, so only this source could have said who the user is.
        case .away: end(user)
        }
    }

    /// This source does not have the user, so the next one is asked.
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
        news.append(.unusable(source: question.source, user, fault))
        // The last good answer stays, as it does while the source is away.
        forget(user, isKnown: false)
        remember(user, isCertain: false, now: now)
        end(user)
    }

    /// The source does not answer. Its waiting questions end, and later questions try the source again.
    private mutating func isAway(_ index: Int, _ fault: UserFault, now: Instant) {
        if let rest = sources[index].rest {
            // Questions of the same time fail together. They count once.
            if now >= rest.until {
                let pause = min(rest.pause * 2, Self.longestPause)
                sources[index].rest = (now + pause, pause)
            }
        } else {
            news.append(.away(source: index, fault))
            sources[index].rest = (now + Self.firstPause, Self.firstPause)
        }
        while let (user, number) = sources[index].queue.popFirst() {
            if let question = questions[user], question.number == number, question.source == index { end(user) }
        }
    }

    /// The question has no answer in time. A source that has answered later questions is not away.
    private mutating func isSilent(_ asked: Asked, now: Instant) {
        if sources[asked.source].lastAnswer < asked.since { isAway(asked.source, .silent, now: now) }
    }

    package var nextDeadline: Instant? { deadlines.nextDeadline }

    package mutating func deadlineReached(now: Instant) {
        while let deadline = deadlines.popExpired(now: now) {
            switch deadline {
            case .patience(let user, let number):
                guard let question = questions[user], question.number == number else { continue }
                // Without a ticket the question has not reached the source, which is busy with others.
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

    /// The questions to ask since the last call.
    package mutating func takeOrders() -> [UserQuestion] {
        defer { orders = [] }
        return orders
    }

    /// The users whose waiting requests can be judged since the last call.
    package mutating func takeSettled() -> [AddressOfRecord] {
        defer { settled = [] }
        return settled
    }

    package mutating func takeNews() -> [News] {
        defer { news = [] }
        return news
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
