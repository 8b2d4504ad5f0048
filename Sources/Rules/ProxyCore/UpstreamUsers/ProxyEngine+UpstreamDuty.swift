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
        searchUpstreamUsers(now: now)
    }

    private static var ceilingPause: Duration { .seconds(1) }

    // MARK: The search

    /// Searches all users of the store whom this node must register.
    func searchUpstreamUsers(now: Moment) {
        guard upstreamUsers.agent.isActive else { return }
        upstreamUsers.search.begin(at: registeringDomains.isEmpty ? nil : now.instant)
        armDuties()
    }

    func upstreamSearchDue(now: Moment) {
        if let due = upstreamUsers.ceilingDue, due <= now.instant {
            upstreamUsers.ceilingDue = nil
            act(.readRegisterCeiling)
        }
        guard let question = upstreamUsers.search.due(.withPush(of: registeringDomains), now: now) else { return }
        if question.after == nil { changeUpstreamUsers(now: now) { agent, _, _ in agent.beginPass() } }
        act(.findContacts(question))
    }

    /// The domains whose users are registered at a PBX.
    private var registeringDomains: [ByteString] {
        upstreamUsers.numbers.compactMap { number in
            upstreamUsers.pbxs[number].registers ? upstreamUsers.pbxs[number].domain : nil
        }
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
        let algorithms = settings.digest.algorithms.reduce(DigestAlgorithms()) { $0.union(DigestAlgorithms(of: $1)) }
        for (aor, sign) in signs {
            guard let user = upstreamUsers.user(aor) else { continue }
            // The password is read when the PBX asks for it.
            let found = WakeableUser(
                upstream: user.upstream, name: user.name, algorithms: algorithms, fingerprint: nil, lastSign: sign,
                isFromEarlierRun: true)
            changeUpstreamUsers(now: now) { $0.userFound(found, now: $1, into: &$2) }
        }
        guard let length = upstreamUsers.search.answered(last: page.last, pause: .zero, now: now.instant) else {
            return
        }
        for user in upstreamUsers.agent.doubtful(limit: Self.doubtfulAtOnce) {
            if let aor = upstreamUsers.aor(of: user) { readUpstreamUser(aor) }
        }
        let pause = max(ContactSearch.passPause, length)
        upstreamUsers.search.begin(at: registeringDomains.isEmpty ? nil : now.instant + pause)
    }

    private static var doubtfulAtOnce: Int { 1000 }

    // MARK: Users at other nodes

    /// Reads a user who may have changed at another node.
    func readUpstreamUser(_ aor: AddressOfRecord) {
        if case .asks(let question) = registrar.reads.hold(.upstreamUser(aor), concerning: withAccount(of: aor)) {
            act(.readUsers(question, waiting: nil))
        }
    }

    /// Goes on after the store has answered about a user: sends the REGISTER that waited for the password, or compares
    /// the user with the registration at the PBX.
    func upstreamUserRead(_ aor: AddressOfRecord, isFresh: Bool, now: Moment) {
        guard case .read(let order)? = upstreamUsers.asked[aor] else {
            if isFresh { noteUpstreamUser(aor, now: now) }
            return
        }
        upstreamUsers.asked[aor] = nil
        guard let failure = isFresh ? register(order, after: .reading, now: now) : .passwordAway else { return }
        changeUpstreamUsers(now: now) { $0.failed(order.number, failure, now: $1, into: &$2) }
    }

    /// Tells the other nodes that an operator has changed or removed the password of a user at this node.
    func tellUpstreamPassword(of name: ByteString, realm: ByteString, now: Moment) {
        for number in upstreamUsers.numbers
        where access.digest.realm(for: upstreamUsers.pbxs[number].domain).account == realm {
            tellUpstreamChange(of: AddressOfRecord(user: name, host: upstreamUsers.pbxs[number].domain), now: now)
        }
    }

    /// Tells the other nodes that the contacts or the password of a user have changed here, because one of them may
    /// register the user at the PBX.
    func tellUpstreamChange(of aor: AddressOfRecord, now: Moment) {
        guard network.flows.haveNodes, !upstreamUsers.agent.isActive, upstreamUsers.user(aor) != nil else { return }
        notifyNodes(aboutPhonesOf: aor, now: now)
    }
}
