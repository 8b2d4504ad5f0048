import Addressing
package import Bytes
package import ProxyPolicy
package import Registration
package import Routing
import SIPTransactions
import Telemetry
import Timekeeping
package import UpstreamRegistration

/// The state of the PBXs of single domains: the PBXs' servers, the registration client that registers users there, and
/// the unanswered REGISTERs.
package struct UpstreamUsers {
    /// The PBX of one domain, identified by its index in ``UpstreamUsers/pbxs``.
    package struct PBX {
        package let domain: ByteString
        package internal(set) var upstream: NextHop
        /// The domain's number in the ``UpstreamAgent``; `nil` if the PBX is only the upstream of a tenant and has no
        /// registered users.
        package internal(set) var registrations: UpstreamNumber?
        package internal(set) var health: UpstreamHealth
        /// The servers that the last DNS look-up of the PBX found.
        var hops: [ResolvedHop] = []
        /// Whether the settings no longer name the PBX for its domain.
        var isRetired = false
        var registers: Bool { registrations != nil }
        /// Whether the PBX asks phones for passwords.
        package internal(set) var credence = Credence.unknown
    }

    /// Whether a PBX challenges phones for a password.
    package enum Credence: String, Sendable {
        case unknown
        case asks
        /// The PBX accepts the daemon's requests without a password, so the daemon challenges phones itself.
        case takesOurWord = "takes-our-word"
    }

    /// The daemon's next step after a source of users has returned a password.
    enum AskedPassword {
        /// The REGISTER is sent with the user's password.
        case send(RegisterOrder)
        /// The REGISTER is sent after the store of the cluster has answered.
        case read(RegisterOrder)
        /// The user is registered again if the password differs from the password that the PBX has refused.
        case compare
    }

    package internal(set) var agent: UpstreamAgent
    package internal(set) var pbxs: [PBX]
    /// The REGISTERs without a final response, each with its transaction and destination endpoint.
    var pending: [RegisterNumber: (client: ClientTransactionID, place: Endpoint)] = [:]
    /// The users about whom a source of users is asked, each with the next step after the answer.
    var asked: [AddressOfRecord: AskedPassword] = [:]
    /// The passwords of removed users, kept until the users' bindings at the PBX have ended.
    var removed: [UpstreamUser: DigestUser] = [:]
    /// The rate limit of log lines about single users at PBXs.
    var lines = LogRateLimit(burst: 10)

    /// The search for all users, while this node has the duties of a cluster.
    var search = ContactSearch()
    /// When the ceiling of CSeq numbers is read again, after the store did not answer.
    var ceilingDue: Instant?
    /// Whether the search has read all contacts once since this node got the duties.
    var hasSearched = false

    static let removedLimit = 1000

    init(_ settings: ProxySettings, _ functions: ProxyFunctions, ceiling: UInt32) {
        agent = UpstreamAgent(
            [], ceiling: ceiling,
            functions: AgentFunctions(
                code: functions.upstreamCode, random: functions.random, seal: functions.upstreamSeal),
            isActive: settings.node == nil)
        pbxs = []
        for wanted in Self.wanted(settings) { add(wanted, settings) }
    }

    /// A PBX that the settings name for a domain.
    struct Wanted: Equatable {
        let domain: ByteString
        let upstream: NextHop
        /// Whether the daemon registers the domain's users at the PBX.
        let registers: Bool

        /// Whether both values name the same PBX of the same domain, even in different spellings.
        func isSame(as other: Wanted) -> Bool {
            domain == other.domain && registers == other.registers && upstream.isSameServer(as: other.upstream)
        }
    }

    /// The PBXs in the settings, sorted by domain: for domains in `register-upstream`, and for other tenants with their
    /// own upstream.
    static func wanted(_ settings: ProxySettings) -> [Wanted] {
        let registering = settings.upstreamRegistrations.compactMap { domain, group in
            group.upstream.map { Wanted(domain: domain, upstream: $0, registers: true) }
        }
        let others = settings.tenants.all.compactMap { tenant in
            tenant.settings.upstream.map { Wanted(domain: tenant.domain, upstream: $0, registers: false) }
        }
        let all = registering + others.filter { other in !registering.contains { $0.domain == other.domain } }
        return all.sorted { $0.domain.string < $1.domain.string }
    }

    /// Adds the PBX of a domain, after all other PBXs.
    mutating func add(_ wanted: Wanted, _ settings: ProxySettings) {
        var pbx = Self.pbx(wanted, settings)
        if wanted.registers { pbx.registrations = agent.domainAdded(Self.domain(wanted.domain, settings)) }
        pbxs.append(pbx)
    }

    private static func pbx(_ wanted: Wanted, _ settings: ProxySettings) -> PBX {
        // A PBX with registered users gets OPTIONS even if `upstream-check` is off, because only OPTIONS shows a
        // restart of the PBX.
        let isChecked = settings.upstreamCheck.interval > .zero
        let check = isChecked || !wanted.registers ? settings.upstreamCheck : UpstreamCheckSettings()
        var pbx = PBX(
            domain: wanted.domain, upstream: wanted.upstream,
            health: UpstreamHealth(check, isUsed: true, now: .distantPast))
        // A numeric PBX address is stored before the first look-up, so that calls from the PBX are recognised
        // immediately.
        pbx.hops = wanted.upstream.numeric.map { [ResolvedHop(transport: $0.0, endpoint: $0.1)] } ?? []
        return pbx
    }

    static func domain(_ domain: ByteString, _ settings: ProxySettings) -> UpstreamDomain {
        let group = settings.upstreamRegistrations[domain] ?? UpstreamRegistrationSettings()
        return UpstreamDomain(
            domain: domain, name: domain,
            realm: settings.realms.realm(for: domain).text,
            expires: UInt32(clamping: group.expires.components.seconds), rate: group.rate, keepFor: group.keepFor,
            hasPath: group.path)
    }

    package var isEmpty: Bool { pbxs.isEmpty }

    /// The indices in ``pbxs`` of the PBXs that the settings still name.
    package var numbers: [Int] { pbxs.indices.filter { !pbxs[$0].isRetired } }

    /// The domains whose users are registered at a PBX.
    var registeringDomains: [ByteString] { numbers.compactMap { pbxs[$0].registers ? pbxs[$0].domain : nil } }

    /// The index in ``pbxs`` of the PBX at which the registration client registers the users of a domain.
    package func number(of registrations: UpstreamNumber) -> Int? {
        pbxs.firstIndex { $0.registrations == registrations }
    }

    /// The index in ``pbxs`` of the PBX for a domain (given in lower case); `nil` if the domain has no PBX.
    func number(of domain: ByteString) -> Int? { pbxs.firstIndex { $0.domain == domain && !$0.isRetired } }

    var nextDeadline: Instant? {
        guard !isEmpty else { return nil }
        var next = agent.nextDeadline
        for pbx in pbxs where !pbx.isRetired { next = [next, pbx.health.nextDeadline].compactMap(\.self).min() }
        return next
    }

    /// The ``UpstreamUser`` with the given AOR; `nil` if the users of the AOR's domain are not registered at a PBX.
    package func user(_ aor: AddressOfRecord) -> UpstreamUser? {
        guard !isEmpty else { return nil }
        return agent.upstream(of: aor.host).map { UpstreamUser($0, aor.user) }
    }

    package func aor(of user: UpstreamUser) -> AddressOfRecord? {
        agent.domain(user.upstream).map { AddressOfRecord(user: user.name, host: $0.domain) }
    }

    /// Notes that a phone's request was sent to a PBX server.
    mutating func called(_ client: ClientTransactionID, at place: Endpoint, now: Instant) {
        for number in pbxs.indices where !pbxs[number].isRetired {
            pbxs[number].health.called(client, at: place, now: now)
        }
    }

    mutating func called(_ aor: AddressOfRecord, now: Moment) {
        if let user = user(aor) { agent.userCalled(user, now: now) }
    }
}
