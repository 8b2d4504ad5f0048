import Addressing
package import Bytes
package import ProxyPolicy
package import Registration
package import Routing
import SIPTransactions
import Telemetry
import Timekeeping
package import UpstreamRegistration

/// All state about users whom the daemon keeps registered at PBXs: the agent that decides, the PBXs with their servers,
/// and the REGISTERs that have no answer yet.
package struct UpstreamUsers {
    /// The PBX of one domain, whose number is its index in ``UpstreamUsers/pbxs``.
    package struct PBX {
        package let domain: ByteString
        package internal(set) var upstream: NextHop
        package internal(set) var health: UpstreamHealth
        /// The servers that the last DNS look-up of the PBX found.
        var hops: [ResolvedHop] = []
        /// Whether the settings no longer name this PBX for the domain.
        var isRetired = false
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

    /// The next step for a user about whom a source of users is asked.
    enum AskedPassword {
        /// The REGISTER is sent with the user's password.
        case send(RegisterOrder)
        /// The user is registered again if the password is another one than the PBX has refused.
        case compare
    }

    package internal(set) var agent: UpstreamAgent
    package internal(set) var pbxs: [PBX]
    /// The REGISTERs that have no answer yet, each with its transaction and the endpoint to which it was sent.
    var pending: [RegisterNumber: (client: ClientTransactionID, place: Endpoint)] = [:]
    /// Users about whom a source of users is asked, with the next step after the answer.
    var asked: [AddressOfRecord: AskedPassword] = [:]
    /// The passwords of removed users, kept until their bindings at the PBX have ended.
    var removed: [UpstreamUser: DigestUser] = [:]
    /// The limit on the number of log lines about single users.
    var lines = LogRateLimit(burst: 10)

    static let removedLimit = 1000

    init(_ settings: ProxySettings, _ functions: ProxyFunctions, ceiling: UInt32) {
        let all = Self.wanted(settings)
        pbxs = all.map { Self.pbx($0.domain, $0.upstream, settings) }
        agent = UpstreamAgent(
            all.map { Self.domain($0.domain, settings) }, ceiling: ceiling,
            functions: AgentFunctions(code: functions.upstreamCode, random: functions.random))
    }

    /// The domains for which the settings name a PBX, sorted by name.
    static func wanted(_ settings: ProxySettings) -> [(domain: ByteString, upstream: NextHop)] {
        settings.upstreamRegistrations.sorted { $0.key.string < $1.key.string }
            .compactMap { domain, group in group.upstream.map { (domain, $0) } }
    }

    static func pbx(_ domain: ByteString, _ upstream: NextHop, _ settings: ProxySettings) -> PBX {
        // The PBX gets OPTIONS even if `upstream-check` is off, because a restart of the PBX would not be noticed
        // without them.
        let check = settings.upstreamCheck.interval > .zero ? settings.upstreamCheck : UpstreamCheckSettings()
        var pbx = PBX(
            domain: domain, upstream: upstream, health: UpstreamHealth(check, isUsed: true, now: .distantPast))
        // A numeric address is known before the first look-up ends, so that calls from the PBX are recognised at once.
        pbx.hops = upstream.numeric.map { [ResolvedHop(transport: $0.0, endpoint: $0.1)] } ?? []
        return pbx
    }

    static func domain(_ domain: ByteString, _ settings: ProxySettings) -> UpstreamDomain {
        let group = settings.upstreamRegistrations[domain] ?? UpstreamRegistrationSettings()
        return UpstreamDomain(
            domain: domain, name: domain, realm: settings.digest.realm.map { ByteString($0) } ?? domain,
            expires: UInt32(clamping: group.expires.components.seconds), rate: group.rate, keepFor: group.keepFor,
            hasPath: group.path)
    }

    package var isEmpty: Bool { pbxs.isEmpty }

    /// The indices in ``pbxs`` of the PBXs that the settings still name.
    package var numbers: [Int] { pbxs.indices.filter { !pbxs[$0].isRetired } }

    /// The index in ``pbxs`` of the PBX of a domain, whose name must be in lower case; `nil` if the domain has no PBX.
    func number(of domain: ByteString) -> Int? { pbxs.firstIndex { $0.domain == domain && !$0.isRetired } }

    var nextDeadline: Instant? {
        guard !isEmpty else { return nil }
        var next = agent.nextDeadline
        for pbx in pbxs where !pbx.isRetired { next = [next, pbx.health.nextDeadline].compactMap(\.self).min() }
        return next
    }

    /// The ``UpstreamUser`` with this AOR; `nil` if the users of the AOR's domain are not registered at a PBX.
    package func user(_ aor: AddressOfRecord) -> UpstreamUser? {
        guard !isEmpty else { return nil }
        return agent.upstream(of: aor.host).map { UpstreamUser($0, aor.user) }
    }

    package func aor(of user: UpstreamUser) -> AddressOfRecord? {
        agent.domain(user.upstream).map { AddressOfRecord(user: user.name, host: $0.domain) }
    }

    mutating func called(_ aor: AddressOfRecord, now: Moment) {
        if let user = user(aor) { agent.userCalled(user, now: now) }
    }
}
