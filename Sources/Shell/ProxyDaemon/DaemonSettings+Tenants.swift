import Addressing
import ProxyPolicy
import PushDelivery
import Registration
import Settings

extension DaemonSettings {
    /// The peers that are trusted for a domain.
    func peers(of domain: String) -> [TrustedPeer] { tenant(of: domain)?.trusted ?? trusted }

    /// Keeps the tenants of domains that were removed from the settings, because the daemon serves a removed domain
    /// until the restart.
    mutating func keepTenants(of old: DaemonSettings) {
        for (domain, group) in old.tenants where !domains.contains(where: { $0.lowercased() == domain.lowercased() }) {
            tenants[domain] = tenants[domain] ?? group
        }
    }

    private func tenant(of domain: String) -> TenantSettings? {
        tenants.first { $0.key.lowercased() == domain.lowercased() }?.value
    }

    /// The errors in the settings of tenants. The settings of all tenants must be consistent with each other and with
    /// the general settings.
    var tenantComplaints: [SettingComplaint] {
        var found: [SettingComplaint] = []
        let apps = tenants.values.contains { $0.pushApps != nil } ? PushDirectory(push).apps.map(\.name) : []
        for (domain, group) in tenants.sorted(by: { $0.key < $1.key }) {
            func complain(_ text: String) { found.append(SettingComplaint("\(domain): \(text)", key: "tenants")) }
            if tenants.keys.contains(where: { $0 < domain && $0.lowercased() == domain.lowercased() }) {
                complain("expected one group for this domain, in one spelling")
            }
            if !domains.contains(where: { $0.lowercased() == domain.lowercased() }) {
                complain("expected one of domains")
            }
            if tls.clientCAFile == nil, let name = (group.trusted ?? []).compactMap(\.provedName).first {
                complain("\(name) is the name in a certificate, and certificates of peers need tls.client-ca-file")
            }
            if digest.realm?.lowercased() == domain.lowercased() {
                complain("expected another digest.realm, because a tenant's domain is the name of its own accounts")
            }
            if group.upstream != nil, registerUpstream.contains(where: { $0.key.lowercased() == domain.lowercased() }) {
                complain("expected no upstream, because register-upstream already names the PBX of this domain")
            }
            if let (_, place) = group.upstream?.numeric, !peers(of: domain).contains(where: { $0.matches(place) }) {
                complain(
                    "expected \(place.address) under trusted of this tenant, so that calls of its PBX reach the users")
            }
            if let transport = group.upstream.flatMap({ $0.numeric?.0 ?? ($0.isSecure ? .tls : $0.transport) }),
                !listen.contains(where: { $0.transport == transport })
            {
                complain("expected a \(transport.parameterName) address under listen to reach the upstream from")
            }
            for app in group.pushApps ?? [] where !apps.contains(app) {
                complain("push-apps names \(app), and the apps under push are \(apps.joined(separator: ", "))")
            }
        }
        return found
    }
}
