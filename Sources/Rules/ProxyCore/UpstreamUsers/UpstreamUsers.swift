import Addressing
package import Bytes
package import ProxyPolicy
package import Registration
package import Routing
import SIPTransactions
import Telemetry
import Timekeeping
package import UpstreamRegistration

/// All state about the PBXs of single domains: the PBXs with their servers, the agent that keeps users registered at
/// some of these PBXs, and the REGISTERs that have no answer yet.
package struct UpstreamUsers {
    /// The PBX of one domain, which is identified by its index in ``UpstreamUsers/pbxs``.
    package struct PBX {
        package let domain: ByteString
        package internal(set) var upstream: NextHop
        /// The domain's number in the agent; `nil` if the daemon registers no users at the PBX, because the PBX is only
        /// the upstream of a tenant.
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

    /// Whether a PBX asks for a password when a phone calls.
    package enum Credence: String, Sendable {
        case unknown
        case asks
        /// The PBX accepts requests of this daemon without a password, so the daemon itself asks phones for their
        /// passwords.
        case takesOurWord = "takes-our-word"
    }

    /// The daemon's next step after a source of users has answered about a user.
    enum AskedPassword {
        /// The REGISTER is sent with the user's password.
        case send(RegisterOrder)
        /// The user is registered again, if the password is not the password that the PBX has refused.
        case compare
    }

    package internal(set) var agent: UpstreamAgent
    package internal(set) var pbxs: [PBX]
    /// The REGISTERs that have no answer yet, each with its transaction and the endpoint to which it was sent.
    var pending: [RegisterNumber: (client: ClientTransactionID, place: Endpoint)] = [:]
    /// Users about whom a source of users is asked, each with the next step after the answer.
    var asked: [AddressOfRecord: AskedPassword] = [:]
    /// The passwords of removed users, kept until their bindings at the PBX have ended.
    var removed: [UpstreamUser: DigestUser] = [:]
    /// The limit on the number of log lines about single users at PBXs.
    var lines = LogRateLimit(burst: 10)

    static let removedLimit = 1000

    init(_ settings: ProxySettings, _ functions: ProxyFunctions, ceiling: UInt32) {
        agent = UpstreamAgent(
            [], ceiling: ceiling, functions: AgentFunctions(code: functions.upstreamCode, random: functions.random))
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

    /// The PBXs that the settings name, sorted by domain: one for each domain in `register-upstream`, and for each other
    /// tenant with an upstream of its own.
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
        // A PBX with registered users gets OPTIONS even if `upstream-check` is off, because without OPTIONS the daemon
        // would not notice a restart of the PBX.
        let isChecked = settings.upstreamCheck.interval > .zero
        let check = isChecked || !wanted.registers ? settings.upstreamCheck : UpstreamCheckSettings()
        var pbx = PBX(
            domain: wanted.domain, upstream: wanted.upstream,
            health: UpstreamHealth(check, isUsed: true, now: .distantPast))
        // The daemon stores a numeric address before the first look-up ends, so that it recognises calls from the PBX
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

    /// The index in ``pbxs`` of the PBX at which the agent registers the users of a domain.
    package func number(of registrations: UpstreamNumber) -> Int? {
        pbxs.firstIndex { $0.registrations == registrations }
    }

    /// The index in ``pbxs`` of the PBX of a domain, whose name must be in lower case; `nil` if the domain has no PBX.
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

    /// Notes that a phone's request was sent to a server of a PBX.
    mutating func called(_ client: ClientTransactionID, at place: Endpoint, now: Instant) {
        for number in pbxs.indices where !pbxs[number].isRetired {
            pbxs[number].health.called(client, at: place, now: now)
        }
    }

    mutating func called(_ aor: AddressOfRecord, now: Moment) {
        if let user = user(aor) { agent.userCalled(user, now: now) }
    }
}
