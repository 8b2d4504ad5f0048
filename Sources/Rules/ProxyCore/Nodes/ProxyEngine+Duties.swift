import Addressing
import Bytes
import LocationService
import ProxyPolicy
import PushPlanning
import Registration
import Routing
import Telemetry
import Timekeeping
import UpstreamRegistration

/// Cares for contacts whose node has ended, while this node has the duties of the cluster. The engine adopts the users of
/// such contacts. Then it removes expired contacts and sends refresh pushes, as for its own contacts.
extension ProxyEngine {
    /// Whether this node must remove an expired contact, and send refresh pushes to it. The Path is as in memory.
    func caresFor(_ path: [ByteString]) -> Bool {
        guard network.flows.haveNodes, !path.isEmpty else { return true }
        if network.flows.isAtOtherNode(path) { return false }
        return network.duties.isHeld || !network.flows.hasLostNode(path)
    }

    func armDuties() {
        for instant in [network.duties.timer(), upstreamUsers.search.timer(), upstreamUsers.ceilingDue] {
            if let instant { _ = output.timers.schedule(.dutiesDue, at: instant) }
        }
    }

    /// Begins to search all users of the store whom this node must register at a PBX.
    func searchUpstreamUsers(now: Moment) {
        guard upstreamUsers.agent.isActive else { return }
        upstreamUsers.search.begin(at: upstreamUsers.registeringDomains.isEmpty ? nil : now.instant)
        armDuties()
    }

    func dutiesDue(now: Moment) {
        if let question = network.duties.due(lead: settings.registrar.refreshPushLead, now: now) {
            act(.findContacts(question))
        }
        armDuties()
    }

    /// Adopts the users of found contacts whose node has ended.
    func found(_ page: ContactPage?, to question: ContactSearch.Question, now: Moment) {
        guard network.duties.isHeld, network.duties.isCurrent(question) else { return }
        defer { armDuties() }
        guard let page else { return network.duties.notAnswered(now: now.instant) }
        let users = Array(Set(page.rows.filter(isUnknownOrphan).map(\.aor)))
        output.counters.count(.contactTakenOver, by: UInt64(users.count))
        for start in stride(from: 0, to: users.count, by: Self.adoptedTogether) {
            let part = users[start..<min(start + Self.adoptedTogether, users.count)]
            if case .asks(let question) = registrar.reads.hold(.orphans, concerning: part.map { .user($0) }) {
                act(.readUsers(question, waiting: nil))
            }
        }
        network.duties.answered(last: page.last, latest: page.latest, users: users.count, now: now)
    }

    /// The number of users in one question to the store. With fewer users, a REGISTER of one of them seldom makes the
    /// engine ask again.
    static var adoptedTogether: Int { 100 }

    private func isUnknownOrphan(_ row: StoredBinding) -> Bool {
        guard network.flows.nodes?.keeper(of: row) == .nobody else { return false }
        return registrar.bindings.binding(row.id)?.registeredAt != row.registeredAt
    }

    /// The bindings of a user whose node has ended.
    func orphans(of user: StoredUser) -> Set<DeviceID> {
        guard network.duties.isHeld, let nodes = network.flows.nodes else { return [] }
        return Set(user.bindings.filter { nodes.keeper(of: $0) == .nobody }.map(\.id))
    }
}
