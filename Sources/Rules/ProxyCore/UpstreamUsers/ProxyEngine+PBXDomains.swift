import Bytes
import ProxyPolicy
package import Routing
import Timekeeping
import UpstreamRegistration

/// Applies changes of the PBXs of domains while the daemon runs.
extension ProxyEngine {
    /// The servers of all PBXs at which users are registered, except servers of the setting `upstream`.
    package var pbxServers: [UpstreamHealth.Server] {
        var servers: [UpstreamHealth.Server] = []
        for number in upstreamUsers.numbers {
            for server in upstreamUsers.pbxs[number].health.servers
            where !network.upstream.health.contains(server.hop.endpoint)
                && !servers.contains(where: { $0.hop.endpoint == server.hop.endpoint })
            {
                servers.append(server)
            }
        }
        return servers
    }

    /// Applies changed settings: ends the registrations of users of removed domains, and registers the users of new
    /// domains. A domain that gets another PBX is treated as removed and then as new.
    func upstreamRegistrationsChanged(since old: ProxySettings, now: Moment) {
        let (before, after) = (UpstreamUsers.wanted(old), UpstreamUsers.wanted(settings))
        var hasNew = false
        for gone in before
        where !after.contains(where: { $0.isSame(as: gone) }) {
            guard let number = upstreamUsers.number(of: gone.domain) else { continue }
            upstreamUsers.pbxs[number].isRetired = true
            guard let registrations = upstreamUsers.pbxs[number].registrations else { continue }
            changeUpstreamUsers(now: now) { $0.domainRemoved(registrations, now: $1, into: &$2) }
        }
        for new in after {
            guard let number = upstreamUsers.number(of: new.domain) else {
                upstreamUsers.add(new, settings)
                hasNew = true
                continue
            }
            if upstreamUsers.pbxs[number].upstream != new.upstream {
                // The same PBX in another spelling may have other records in DNS, and its registrations go on.
                upstreamUsers.pbxs[number].upstream = new.upstream
                lookUpPBX(number, now: now)
            }
            let domain = UpstreamUsers.domain(new.domain, settings)
            guard let registrations = upstreamUsers.pbxs[number].registrations,
                domain != UpstreamUsers.domain(new.domain, old)
            else { continue }
            changeUpstreamUsers(now: now) { agent, now, _ in agent.domainChanged(registrations, to: domain, now: now) }
        }
        guard hasNew else { return }
        findUpstreamUsers(now: now)
        upstreamUsersDue(now: now)
    }
}
