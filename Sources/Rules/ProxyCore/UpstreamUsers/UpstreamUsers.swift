import Addressing
import Bytes
import ProxyPolicy
package import Registration
import Routing
import SIPTransactions
import Telemetry
import Timekeeping
package import UpstreamRegistration

/// The users who are kept registered at PBXs: the machine that decides, the servers of each PBX, and the REGISTERs that
/// have no answer yet.
package struct UpstreamUsers {
    /// One PBX, with the number of its place in the list.
    struct PBX {
        let domain: ByteString
        let upstream: NextHop
        var health: UpstreamHealth
        /// The addresses of the last look-up.
        var hops: [ResolvedHop] = []
    }

    package internal(set) var agent: UpstreamAgent
    var pbxs: [PBX]
    /// The REGISTERs that have no answer yet, with the place that each was sent to.
    var pending: [RegisterNumber: (client: ClientTransactionID, place: Endpoint)] = [:]
    /// The passwords of removed users whose bindings have not ended yet.
    var removed: [UpstreamUser: DigestUser] = [:]
    /// Limits the log lines about users.
    var lines = LogRateLimit(burst: 10)

    static let removedLimit = 1000

    init(_ settings: ProxySettings, _ functions: ProxyFunctions, ceiling: UInt32) {
        let all = settings.upstreamRegistrations.sorted { $0.key.string < $1.key.string }
            .compactMap { domain, settings in settings.upstream.map { (domain, $0, settings) } }
        // Without OPTIONS a restart of the PBX would not be noticed, so they are sent even if `upstream-check` is off.
        let check = settings.upstreamCheck.interval > .zero ? settings.upstreamCheck : UpstreamCheckSettings()
        pbxs = all.map { domain, upstream, _ in
            PBX(
                domain: domain, upstream: upstream,
                health: UpstreamHealth(check, isUsed: true, now: .distantPast))
        }
        let digest = settings.digest
        agent = UpstreamAgent(
            all.map { domain, _, settings in
                UpstreamDomain(
                    domain: domain, name: domain,
                    realm: digest.realm.map { ByteString($0) } ?? domain,
                    expires: UInt32(clamping: settings.expires.components.seconds), rate: settings.rate,
                    keepFor: settings.keepFor)
            }, ceiling: ceiling, functions: AgentFunctions(code: functions.upstreamCode, random: functions.random))
    }

    package var isEmpty: Bool { pbxs.isEmpty }

    var nextDeadline: Instant? {
        guard !isEmpty else { return nil }
        var next = agent.nextDeadline
        for pbx in pbxs { next = [next, pbx.health.nextDeadline].compactMap(\.self).min() }
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
