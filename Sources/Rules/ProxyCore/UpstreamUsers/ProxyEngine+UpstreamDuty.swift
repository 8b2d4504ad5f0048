import AccessLimits
import Addressing
import Bytes
import LocationService
import ProxyPolicy
import PushDelivery
import Registration
import Routing
import Timekeeping
import UpstreamRegistration

/// Registers the users of all nodes at their PBXs, while this node has the duties of the cluster.
///
/// The engine searches all contacts in the store again and again. Between two searches, the other nodes send a NOTIFY
/// when a phone adds or removes a contact there.
extension ProxyEngine {
    func upstreamDutyChanged(isHeld: Bool, now: Moment) {
        if isHeld { return act(.readRegisterCeiling) }
        upstreamUsers.ceilingDue = nil
        upstreamUsers.search.begin(at: nil)
        upstreamUsers.asked = [:]
        changeUpstreamUsers(now: now) { $0.suspended(now: $1, into: &$2) }
    }

    /// Begins to register users above the CSeq numbers that other nodes may have used; `nil` means that the store did
    /// not answer.
    func ceilingRead(_ ceiling: UInt32?, now: Moment) {
        guard network.duties.isHeld, !upstreamUsers.agent.isActive else { return }
        guard let ceiling else {
            upstreamUsers.ceilingDue = now.instant + Self.ceilingPause
            return armDuties()
        }
        changeUpstreamUsers(now: now) { $0.resumed(above: ceiling, now: $1, into: &$2) }
        upstreamUsers.hasSearched = false
        if upstreamUsers.agent.isEmpty { upstreamUsers.removed = [:] }
        searchUpstreamUsers(now: now)
    }

    private static var ceilingPause: Duration { .seconds(1) }

    // MARK: The search

    /// Handles the timer of the search and of the ceiling.
    func upstreamSearchDue(now: Moment) {
        if let due = upstreamUsers.ceilingDue, due <= now.instant {
            upstreamUsers.ceilingDue = nil
            act(.readRegisterCeiling)
        }
        guard let question = upstreamUsers.search.due(.withPush(of: upstreamUsers.registeringDomains), now: now) else {
            return
        }
        if question.after == nil { changeUpstreamUsers(now: now) { agent, _, _ in agent.beginPass() } }
        act(.findContacts(question))
    }

    /// Registers the users of one page. After the last page, the engine reads the users whom the search has not found.
    func upstreamUsersFound(_ page: ContactPage?, to question: ContactSearch.Question, now: Moment) {
        guard upstreamUsers.agent.isActive, upstreamUsers.search.isCurrent(question) else { return }
        defer { armDuties() }
        guard let page else { return upstreamUsers.search.notAnswered(now: now.instant) }
        var signs: [AddressOfRecord: UnixTime] = [:]
        for row in page.rows where row.pushToken.map({ registrar.enabledProviders.contains($0.provider) }) == true {
            signs[row.aor] = max(signs[row.aor] ?? row.registeredAt, row.registeredAt)
        }
        var unknown: [AddressOfRecord] = []
        for (aor, sign) in signs {
            guard let user = upstreamUsers.user(aor) else { continue }
            changeUpstreamUsers(now: now) { agent, now, orders in
                if !agent.userFound(user, lastSign: sign, now: now, into: &orders) { unknown.append(aor) }
            }
        }
        read(unknown, signs)
        let pause = Self.unknownPause * unknown.count
        guard let length = upstreamUsers.search.answered(last: page.last, pause: pause, now: now.instant) else {
            return
        }
        upstreamUsers.hasSearched = true
        let unfound = upstreamUsers.agent.unfound(limit: Self.unfoundAtOnce)
        for user in unfound + upstreamUsers.agent.refusedInTurn(limit: Self.refusedAtOnce) {
            if let aor = upstreamUsers.aor(of: user) { readUpstreamUser(aor) }
        }
        let next = now.instant + max(ContactSearch.passPause, length)
        upstreamUsers.search.begin(at: upstreamUsers.registeringDomains.isEmpty ? nil : next)
    }

    /// Reads the accounts of users whom the search has found, before their first REGISTER.
    private func read(_ users: [AddressOfRecord], _ signs: [AddressOfRecord: UnixTime]) {
        for start in stride(from: 0, to: users.count, by: Self.adoptedTogether) {
            let part = users[start..<min(start + Self.adoptedTogether, users.count)]
            let candidates = Dictionary(part.map { ($0, signs[$0] ?? UnixTime(milliseconds: 0)) }) { $1 }
            let held = registrar.reads.hold(.upstreamCandidates(candidates), concerning: part.map(account))
            if case .asks(let question) = held { act(.readUsers(question, waiting: nil)) }
        }
    }

    /// Begins to register users whom the search has found.
    func upstreamCandidatesRead(_ signs: [AddressOfRecord: UnixTime], now: Moment) {
        for (aor, sign) in signs {
            let (algorithms, fingerprint) = passwordFacts(of: aor, now: now)
            // The contacts of a removed user stay.
            guard !algorithms.isEmpty, let user = upstreamUsers.user(aor) else { continue }
            let found = WakeableUser(
                upstream: user.upstream, name: user.name, algorithms: algorithms, fingerprint: fingerprint,
                lastSign: sign, isFromEarlierRun: true)
            changeUpstreamUsers(now: now) { $0.userIsWakeable(found, now: $1, into: &$2) }
        }
    }

    /// The pause for each account that a page makes the node read.
    private static var unknownPause: Duration { .milliseconds(1) }
    /// The maximum numbers of users that are read after one pass.
    private static var unfoundAtOnce: Int { 1000 }
    private static var refusedAtOnce: Int { 100 }

    // MARK: Users at other nodes

    /// Compares a user, as the store has the user now, with the registration at the PBX.
    func upstreamUserRead(_ aor: AddressOfRecord, now: Moment) {
        guard upstreamUsers.agent.isActive, let user = upstreamUsers.user(aor) else { return }
        let state = upstreamUsers.agent.status(of: user)?.state
        guard passwordFacts(of: aor, now: now).algorithms.isEmpty, let state, state != .refused else {
            // A new user without a password is shown to operators as refused.
            return noteUpstreamUser(aor, now: now)
        }
        // The user was removed, and the contacts stay.
        changeUpstreamUsers(now: now) { $0.userEnded(user, .userRemoved, now: $1, into: &$2) }
    }

    /// Sends the REGISTER that waited for the password.
    func upstreamPasswordRead(_ aor: AddressOfRecord, isFresh: Bool, now: Moment) {
        guard case .read(let order)? = upstreamUsers.asked[aor] else { return }
        upstreamUsers.asked[aor] = nil
        guard let failure = isFresh ? register(order, after: .reading, now: now) : .passwordAway else { return }
        changeUpstreamUsers(now: now) { $0.failed(order.number, failure, now: $1, into: &$2) }
    }

    /// Compares the user, or tells the other nodes, after an operator has changed or removed a password at this node.
    func tellUpstreamPassword(of name: ByteString, realm: ByteString, now: Moment) {
        guard network.flows.haveNodes else { return }
        for number in upstreamUsers.numbers
        where access.digest.realm(for: upstreamUsers.pbxs[number].domain).account == realm {
            let aor = AddressOfRecord(user: name, host: upstreamUsers.pbxs[number].domain)
            guard upstreamUsers.agent.isActive else {
                tellUpstreamChange(of: aor, now: now)
                continue
            }
            // The search finds users whom this node does not register yet.
            let user = upstreamUsers.user(aor)
            if user.flatMap({ upstreamUsers.agent.status(of: $0) }) != nil { readUpstreamUser(aor) }
        }
    }

    /// Tells the other nodes that the contacts or the password of a user have changed here, because one of them may
    /// register the user at the PBX.
    func tellUpstreamChange(of aor: AddressOfRecord, now: Moment) {
        guard network.flows.haveNodes, !upstreamUsers.agent.isActive, upstreamUsers.user(aor) != nil else { return }
        notifyNodes(aboutPhonesOf: aor, now: now)
    }
}
