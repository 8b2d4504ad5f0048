package import Bytes
package import Registration

/// The index of a tenant in ``Tenants/all``.
package struct TenantNumber: Hashable, Sendable {
    package let rawValue: Int

    package init(_ rawValue: Int) { self.rawValue = rawValue }
}

/// The tenants: domains with their own settings, whose users, peers and limits are separate from all other domains
/// (T41).
///
/// Domains that are no tenants share the general settings, and have no ``TenantNumber``.
package struct Tenants: Sendable {
    package struct Tenant: Hashable, Sendable {
        /// The tenant's domain in lower case.
        package let domain: ByteString
        package let settings: TenantSettings
        /// The peers that are trusted for the tenant's domain.
        package let peers: [TrustedPeer]
    }

    /// The tenants in the order of their domains.
    package let all: [Tenant]
    /// The trusted peers of all domains that are no tenants.
    package let commonPeers: [TrustedPeer]
    private let numbers: [ByteString: TenantNumber]
    /// The names of all apps that only tenants may use.
    private let ownApps: Set<String>

    /// Creates the tenants from their settings by domain, and from the general setting `trusted`.
    package init(_ groups: [String: TenantSettings] = [:], trusted: [TrustedPeer] = []) {
        all = groups.sorted { $0.key < $1.key }.map { domain, settings in
            Tenant(
                domain: ByteString(domain.lowercased()), settings: settings, peers: settings.trusted ?? trusted)
        }
        commonPeers = trusted
        numbers = Dictionary(
            all.enumerated().map { ($1.domain, TenantNumber($0)) }, uniquingKeysWith: { first, _ in first })
        ownApps = Set(all.flatMap { $0.settings.pushApps ?? [] })
    }

    /// The tenant with the given lower-case domain; `nil` for any other domain.
    package func number(of domain: ByteString) -> TenantNumber? { all.isEmpty ? nil : numbers[domain] }

    package subscript(number: TenantNumber) -> Tenant { all[number.rawValue] }

    /// The trusted peers of a tenant; a `nil` tenant means the domains that are no tenants.
    package func peers(of tenant: TenantNumber?) -> [TrustedPeer] { tenant.map { self[$0].peers } ?? commonPeers }

    /// All peers that are trusted for any domain, each once.
    package var allPeers: [TrustedPeer] {
        var peers = commonPeers
        for tenant in all {
            for peer in tenant.settings.trusted ?? [] where !peers.contains(peer) { peers.append(peer) }
        }
        return peers
    }

    /// Whether any tenant has its own push apps.
    package var haveApps: Bool { all.contains { $0.settings.pushApps != nil } }

    /// Whether phones of a tenant may register tokens of the app `name` (T41.4).
    package func mayUse(app name: String, _ tenant: TenantNumber?) -> Bool {
        if let apps = tenant.flatMap({ self[$0].settings.pushApps }) { return apps.contains(name) }
        return !ownApps.contains(name)
    }

    /// The realms of all domains; `common` is the setting `digest.realm`.
    package func realms(common: String?) -> Realms {
        Realms(
            common: common,
            tenants: Dictionary(all.map { ($0.domain, $0.settings.realm) }, uniquingKeysWith: { first, _ in first }))
    }
}
