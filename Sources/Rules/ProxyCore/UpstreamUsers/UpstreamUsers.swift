import Addressing
package import Bytes
package import ProxyPolicy
package import Registration
package import Routing
import SIPTransactions
import Telemetry
import Timekeeping
package import UpstreamRegistration

/// The users who are kept registered at PBXs: the machine that decides, the servers of each PBX, and the REGISTERs that
/// have no answer yet.
package struct UpstreamUsers {
    /// One PBX, with the number of its place in the list.
    package struct PBX {
        package let domain: ByteString
        package let upstream: NextHop
        package internal(set) var health: UpstreamHealth
        /// The addresses of the last look-up.
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
        /// The PBX accepts requests of this daemon without a password, so the daemon asks phones itself.
        case takesOurWord = "takes-our-word"
    }

    package internal(set) var agent: UpstreamAgent
    package internal(set) var pbxs: [PBX]
    /// The REGISTERs that have no answer yet, with the place that each was sent to.
    var pending: [RegisterNumber: (client: ClientTransactionID, place: Endpoint)] = [:]
    /// The passwords of removed users whose bindings have not ended yet.
    var removed: [UpstreamUser: DigestUser] = [:]
    /// Limits the log lines about users.
    var lines = LogRateLimit(burst: 10)

    static let removedLimit = 1000

    init(_ settings: ProxySettings, _ functions: ProxyFunctions, ceiling: UInt32) {
        let all = Self.wanted(settings)
        pbxs = all.map { Self.pbx($0.domain, $0.upstream, settings) }
        agent = UpstreamAgent(
            all.map { Self.domain($0.domain, settings) }, ceiling: ceiling,
            functions: AgentFunctions(code: functions.upstreamCode, random: functions.random))
    }

    /// The domains of the settings with their PBXs, in a fixed order.
    static func wanted(_ settings: ProxySettings) -> [(domain: ByteString, upstream: NextHop)] {
        settings.upstreamRegistrations.sorted { $0.key.string < $1.key.string }
            .compactMap { domain, group in group.upstream.map { (domain, $0) } }
    }

    static func pbx(_ domain: ByteString, _ upstream: NextHop, _ settings: ProxySettings) -> PBX {
        // Without OPTIONS a restart of the PBX would not be noticed, so they are sent even if `upstream-check` is off.
        let check = settings.upstreamCheck.interval > .zero ? settings.upstreamCheck : UpstreamCheckSettings()
        var pbx = PBX(
            domain: domain, upstream: upstream, health: UpstreamHealth(check, isUsed: true, now: .distantPast))
        // Calls of the PBX may come before the first look-up has ended.
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

    /// The numbers of the PBXs that the settings name.
    package var numbers: [Int] { pbxs.indices.filter { !pbxs[$0].isRetired } }

    /// The number of the PBX of a domain, which must be in lower case.
    func number(of domain: ByteString) -> Int? { pbxs.firstIndex { $0.domain == domain && !$0.isRetired } }

    var nextDeadline: Instant? {
        guard !isEmpty else { return nil }
        var next = agent.nextDeadline
        for pbx in pbxs where !pbx.isRetired { next = [next, pbx.health.nextDeadline].compactMap(\.self).min() }
        return next
    }

    /// The user of an AOR; `nil` if the domain is not registered at a PBX.
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
