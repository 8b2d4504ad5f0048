package import Bytes
import Collections
import SIPGrammar
package import Telemetry
package import Timekeeping

/// Keeps each user registered at the user's PBX while all phones of the user sleep (RFC 3261 section 10.2).
///
/// Each user with a wakeable device has one binding at the PBX. The contact of the binding has an ``UpstreamToken`` as
/// user and this daemon as host. Each binding is refreshed after 50 to 80 percent of the granted time. The registration
/// client sends nothing: the engine sends the REGISTER of each ``UpstreamOrder``, and reports the result. The
/// registration client knows no passwords: an order contains the challenge that the engine must answer.
package struct UpstreamAgent {
    var stands: [UpstreamStand]
    var records: [UserRecord] = []
    var slabs = ByteSlabs()
    var timers = DeadlineQueue<UInt32>()
    var cseqs: CSeqSupply
    let functions: AgentFunctions
    package internal(set) var counts = UpstreamCounts()
    /// Whether this daemon registers the users. In a cluster, only the node with the duties does.
    package internal(set) var isActive: Bool
    /// Since when the registration client is suspended, if it still has the users.
    var suspendedAt: Instant?
    /// The index of the record at which ``refusedInTurn(limit:)`` ended.
    var refusedCursor = 0
    private var vacant: [UInt32] = []
    private var byName = SlotIndex()
    private var byToken = SlotIndex()

    /// Creates a registration client for the given domains, without users.
    ///
    /// - Parameters:
    ///   - domains: the domains whose users are registered at a PBX, in the order of their ``UpstreamNumber``.
    ///   - ceiling: the stored ceiling of CSeq numbers, see ``CSeqSupply``; 0 in the first run.
    ///   - functions: the functions for random numbers and for the ``UpstreamToken`` of each user.
    ///   - isActive: false for a node of a cluster, until ``resumed(above:now:into:)``.
    package init(
        _ domains: [UpstreamDomain], ceiling: UInt32, functions: AgentFunctions, isActive: Bool = true
    ) {
        stands = domains.map { UpstreamStand(setup: $0) }
        self.isActive = isActive
        cseqs = CSeqSupply(ceiling: ceiling)
        self.functions = functions
    }

    // MARK: What is known

    package var isEmpty: Bool { records.count == vacant.count }

    /// The number of the PBX for a domain (given in lower case); `nil` if the domain has no PBX.
    package func upstream(of domain: ByteString) -> UpstreamNumber? {
        stands.firstIndex { $0.setup.domain == domain && !$0.isRetired }.map { UpstreamNumber(UInt16($0)) }
    }

    package func domain(_ upstream: UpstreamNumber) -> UpstreamDomain? {
        stands.indices.contains(upstream.index) ? stands[upstream.index].setup : nil
    }

    /// The user whose token is the user part of a PBX's Request-URI; `nil` if no user has the token. The search for an
    /// ``UpstreamToken`` takes equally long for texts that are no tokens.
    package func user(called text: ByteString) -> UpstreamUser? {
        if let (name, domain) = functions.seal?.open(text) {
            return upstream(of: domain).map { UpstreamUser($0, name) }
        }
        let token = UpstreamToken(text)
        let sought = token ?? Self.nobody
        let slot = byToken.find(hash: sought.tableHash) { slot in
            let record = records[Int(slot)]
            return record.token.isSame(as: sought) && !stands[Int(record.upstream)].isRetired
        }
        guard token != nil, let slot else { return nil }
        return user(at: slot)
    }

    /// Whether a text can be a token, perhaps of a removed user.
    package func mayBeToken(_ text: ByteString) -> Bool {
        UpstreamToken(text) != nil || functions.seal?.open(text) != nil
    }

    /// The user part of the user's contact at the PBX.
    func token(of slot: UInt32) -> ByteString {
        let record = records[Int(slot)]
        guard let seal = functions.seal else { return record.token.text }
        return seal.seal(user(at: slot).name, stands[Int(record.upstream)].setup.domain)
    }

    /// Whether a text is the token of a user.
    func isToken(_ text: ByteString, of slot: UInt32) -> Bool {
        if let (name, domain) = functions.seal?.open(text) {
            return user(at: slot).name == name && stands[Int(records[Int(slot)].upstream)].setup.domain == domain
        }
        return UpstreamToken(text).map { records[Int(slot)].token.isSame(as: $0) } == true
    }

    private static let nobody = UpstreamToken(code: [UInt8](repeating: 0, count: 13))

    package func status(of user: UpstreamUser) -> UpstreamStatus? {
        isActive ? slot(of: user).map { status(at: $0) } : nil
    }

    /// One page of the users of a PBX (`nil` for all PBXs), and the index at which the next page starts.
    package func users(of upstream: UpstreamNumber?, from start: Int, limit: Int) -> (
        page: [UpstreamStatus], next: Int?
    ) {
        var page: [UpstreamStatus] = []
        var place = max(0, start)
        while isActive, place < records.count, page.count < limit {
            let record = records[place]
            if upstream.map({ record.upstream == $0.rawValue }) ?? true, !record.marks.contains(.isVacant) {
                page.append(status(at: UInt32(place)))
            }
            place += 1
        }
        return (page, isActive && place < records.count ? place : nil)
    }

    private func status(at slot: UInt32) -> UpstreamStatus {
        let record = records[Int(slot)]
        return UpstreamStatus(
            user: user(at: slot), state: record.state, since: UnixTime(seconds: Int64(record.since)),
            status: record.status, refusal: record.state == .refused ? refusal(of: record) : nil,
            waitsForPassword: record.state == .registering && record.refusal == .passwordAway,
            boundUntil: record.boundUntil, token: token(of: slot))
    }

    private func refusal(of record: UserRecord) -> UpstreamRefusal? {
        switch record.refusal {
        case .none, .passwordAway: return nil
        case .status: return .status(record.status)
        case .realm: return .realm(stands[Int(record.upstream)].askedRealm ?? .empty)
        case .algorithm: return .algorithm
        case .noPassword: return .noPassword
        }
    }

    /// The realm in which the PBX last asked for a password; `nil` if the PBX has not asked yet.
    package func askedRealm(of upstream: UpstreamNumber) -> ByteString? {
        stands.indices.contains(upstream.index) ? stands[upstream.index].askedRealm : nil
    }

    /// The number of users of one PBX in each registration state.
    package func states(of upstream: UpstreamNumber) -> [RegistrationState: Int] {
        var states: [RegistrationState: Int] = [:]
        for record in records where record.upstream == upstream.rawValue && !record.marks.contains(.isVacant) {
            states[record.state, default: 0] += 1
        }
        return states
    }

    /// The users whom the PBX refuses or does not know, at most `limit` users.
    package func refused(of upstream: UpstreamNumber, limit: Int) -> [UpstreamStatus] {
        var found: [UpstreamStatus] = []
        for place in records.indices where found.count < limit {
            let record = records[place]
            guard record.upstream == upstream.rawValue, record.state == .refused || record.state == .absent,
                !record.marks.contains(.isVacant)
            else { continue }
            found.append(status(at: UInt32(place)))
        }
        return found
    }

    /// The time of the next work for ``due(now:into:)``.
    package var nextDeadline: Instant? {
        guard isActive else { return suspendedAt.map { $0 + Self.memory } }
        var next = timers.nextDeadline
        for stand in stands {
            for instant in [stand.wakeAt, stand.watch.nextQuery] {
                guard let instant else { continue }
                next = next.map { min($0, instant) } ?? instant
            }
        }
        return next
    }

    // MARK: Records

    func user(at slot: UInt32) -> UpstreamUser {
        let record = records[Int(slot)]
        return UpstreamUser(
            UpstreamNumber(record.upstream), slabs.withBytes(record.name) { ByteString(copying: $0) })
    }

    func slot(of user: UpstreamUser) -> UInt32? {
        slot(of: user, hash: Self.hash(user))
    }

    private func slot(of user: UpstreamUser, hash: UInt32) -> UInt32? {
        byName.find(hash: hash) { slot in
            let record = records[Int(slot)]
            guard record.upstream == user.upstream.rawValue else { return false }
            return slabs.withBytes(record.name) { stored in user.name.withSpan { stored.hasSameBytes(as: $0) } }
        }
    }

    /// A hash of a user for the table of names; the hash has a random seed, because names come from the network.
    private static func hash(_ user: UpstreamUser) -> UInt32 {
        var hasher = Hasher()
        hasher.combine(user.upstream.rawValue)
        hasher.combine(user.name)
        return UInt32(truncatingIfNeeded: hasher.finalize())
    }

    /// Makes the record of a new user, without sending a REGISTER.
    ///
    /// - Returns: the slot of the record; `nil` for a name that is too long.
    mutating func makeRecord(_ user: WakeableUser, now: Moment) -> UInt32? {
        let setup = stands[user.upstream.index].setup
        guard !user.name.isEmpty, user.name.count <= Self.longestName,
            let name = user.name.withSpan({ slabs.add($0) })
        else { return nil }
        let token = functions.token(of: user.name, at: setup.domain, upstream: setup.name)
        var record = UserRecord(
            name: name, token: token, cseq: 0, fingerprint: user.fingerprint ?? 0, since: Self.seconds(now.date),
            lastSign: Self.seconds(user.lastSign), lastCall: user.lastCall.map(Self.seconds) ?? 0,
            upstream: user.upstream.rawValue, algorithms: user.algorithms)
        record.marks = user.isFromEarlierRun ? [.isWakeable, .isFound, .mayBeBound] : [.isWakeable, .isFound]
        let slot: UInt32
        if let free = vacant.popLast() {
            slot = free
            // The slot's CSeq numbers continue after the earlier user of the slot. Therefore a late answer for the
            // earlier user is recognised as old.
            record.cseq = records[Int(free)].cseq
            records[Int(free)] = record
        } else {
            slot = UInt32(truncatingIfNeeded: records.count)
            records.append(record)
        }
        byName.insert(hash: Self.hash(UpstreamUser(user.upstream, user.name)), slot: slot)
        byToken.insert(hash: token.tableHash, slot: slot)
        counts.states[Int(record.state.rawValue)] += 1
        return slot
    }

    private static let longestName = 255

    mutating func removeRecord(_ slot: UInt32) {
        let record = records[Int(slot)]
        guard !record.marks.contains(.isVacant) else { return }
        timers.cancel(record.deadline)
        byName.remove(hash: Self.hash(user(at: slot)), slot: slot)
        byToken.remove(hash: record.token.tableHash, slot: slot)
        slabs.remove(record.name)
        slabs.remove(record.kept)
        counts.states[Int(record.state.rawValue)] -= 1
        records[Int(slot)].marks = .isVacant
        records[Int(slot)].pending = .nothing
        records[Int(slot)].line = .none
        records[Int(slot)].name = .none
        records[Int(slot)].kept = .none
        records[Int(slot)].deadline = .none
        vacant.append(slot)
    }

    /// Forgets all users. Their bindings at the PBXs stay.
    mutating func forgetUsers() {
        (records, slabs, timers, vacant) = ([], ByteSlabs(), DeadlineQueue(), [])
        (byName, byToken) = (SlotIndex(), SlotIndex())
        for state in counts.states.indices { counts.states[state] = 0 }
        for place in stands.indices { stands[place].forgetUsers() }
    }

    static func seconds(_ date: UnixTime) -> UInt32 { UInt32(clamping: date.seconds) }

    // MARK: State

    mutating func turn(_ slot: UInt32, to state: RegistrationState, now: Moment) {
        let old = records[Int(slot)].state
        guard old != state else { return }
        counts.states[Int(old.rawValue)] -= 1
        counts.states[Int(state.rawValue)] += 1
        records[Int(slot)].state = state
        // A refresh does not change `since`, because the PBX knows the user during the whole refresh.
        if old != .refreshing || state != .registered, old != .registered || state != .refreshing {
            records[Int(slot)].since = Self.seconds(now.date)
        }
    }

    /// Sets the state of a user whose next REGISTER is due: `refreshing` if the PBX still knows the user, otherwise
    /// `registering`.
    mutating func turnToWork(_ slot: UInt32, now: Moment) {
        turn(slot, to: records[Int(slot)].boundUntil > now.instant ? .refreshing : .registering, now: now)
    }

    mutating func schedule(_ slot: UInt32, at instant: Instant) {
        timers.cancel(records[Int(slot)].deadline)
        records[Int(slot)].deadline = timers.schedule(slot, at: instant)
    }

    mutating func unschedule(_ slot: UInt32) {
        timers.cancel(records[Int(slot)].deadline)
        records[Int(slot)].deadline = .none
    }

    mutating func keep(_ challenge: DigestChallenge, _ form: KeptForm, for slot: UInt32) {
        forgetChallenge(slot)
        guard let bytes = KeptChallenge.bytes(of: challenge), let place = slabs.add(bytes.span) else { return }
        records[Int(slot)].kept = place
        records[Int(slot)].keptForm = form
    }

    mutating func forgetChallenge(_ slot: UInt32) {
        slabs.remove(records[Int(slot)].kept)
        records[Int(slot)].kept = .none
        records[Int(slot)].nonceCount = 0
    }
}

/// The state of one user at the PBX, for operators.
package struct UpstreamStatus: Sendable {
    package let user: UpstreamUser
    package let state: RegistrationState
    package let since: UnixTime
    /// The status of the last final response from the PBX; 0 if no response came.
    package let status: UInt16
    /// Why the state of the user is ``RegistrationState/refused``.
    package let refusal: UpstreamRefusal?
    /// Whether the REGISTER waits until a source of users supplies the HA1.
    let waitsForPassword: Bool
    /// When the user's binding at the PBX ends, as far as this run of the daemon knows.
    package let boundUntil: Instant
    /// The token by which the PBX calls the user; operators never see the token.
    package let token: ByteString

    /// Why the PBX does not know the user, as a clause for messages; `nil` if the PBX knows the user.
    package var words: String? {
        switch state {
        case .registered, .refreshing: nil
        case .refused: refusal?.words ?? "it refused the user"
        case .absent: "it has no such user (\(status))"
        case .ending: "no phone of the user can be woken, so the daemon ends the registration"
        case .registering where waitsForPassword: "no source of users says now which password the user has"
        case .registering where status == 0: "it has not answered"
        case .registering where status < 300: "it accepted the REGISTER, but does not list the contact"
        case .registering: "its last answer was \(status)"
        }
    }

    /// The advice for the operator about the problem in ``words``; `nil` if the operator need not do anything.
    package var advice: String? {
        switch state {
        case .registered, .refreshing, .ending: nil
        case .refused: refusal?.advice
        case .absent: "add the user there, then run sippushd upstream retry"
        case .registering where waitsForPassword: "sippushd doctor asks each source of users and says what is wrong"
        case .registering: "the daemon tries again by itself; the log and sippushd doctor tell whether the PBX answers"
        }
    }
}

/// The registration client's counts of users, results and REGISTERs, for the metrics.
package struct UpstreamCounts: Sendable {
    package enum Result: Int, Hashable, Sendable, CaseIterable {
        case registered, refreshed, ended, challenged, refused, unknownUser, tooBrief, serverFailed, noAnswer, other

        /// The value of the metrics label for the result.
        package var name: String {
            switch self {
            case .unknownUser: "unknown-user"
            case .tooBrief: "too-brief"
            case .serverFailed: "server-failed"
            case .noAnswer: "no-answer"
            case .registered, .refreshed, .ended, .challenged, .refused, .other: "\(self)"
            }
        }
    }

    /// The number of users in each state, indexed by the raw value of ``RegistrationState``.
    package internal(set) var states = [Int](repeating: 0, count: RegistrationState.allCases.count)
    package internal(set) var results = [UInt64](repeating: 0, count: Result.allCases.count)
    /// The number of REGISTERs that were sent to all PBXs.
    package internal(set) var sent: UInt64 = 0
    /// The delay between the due time of a refresh and its acceptance by the PBX.
    package internal(set) var refreshLag = Histogram()

    package init() {}

    package subscript(state: RegistrationState) -> Int { states[Int(state.rawValue)] }
    package subscript(result: Result) -> UInt64 { results[result.rawValue] }

    mutating func count(_ result: Result) { results[result.rawValue] &+= 1 }
}
