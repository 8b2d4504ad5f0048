package import Bytes

/// The realm in which a domain's users prove their passwords.
package struct Realm: Hashable, Sendable {
    /// The realm's text in challenges and in each HA1 of the domain's users (RFC 7616 section 3.4.2).
    package let text: ByteString
    /// The key of the domain's users in ``UserDirectory`` and the store: the domain of a tenant, or the realm's text
    /// for other domains.
    package let account: ByteString

    /// Creates a realm whose users are stored under its text.
    package init(_ text: ByteString) {
        self.text = text
        account = text
    }

    /// Creates the realm of a tenant. Users of two tenants never share a password, even if both realms have the same
    /// text.
    package init(_ text: ByteString, ofTenant domain: ByteString) {
        self.text = text
        account = domain
    }
}

/// The realms of all domains.
package struct Realms: Hashable, Sendable {
    /// The realm of all domains that are no tenants; `nil` if each of these domains is its own realm.
    private let common: Realm?
    /// The realms of the tenants, by domain in lower case.
    private let tenants: [ByteString: Realm]

    /// Creates the realms of all domains.
    ///
    /// - Parameters:
    ///   - common: the setting `digest.realm`.
    ///   - tenants: the domain of each tenant in lower case, with its own realm; `nil` for a tenant with the common
    ///     realm.
    package init(common: String?, tenants: [ByteString: String?] = [:]) {
        self.common = common.map { Realm(ByteString($0)) }
        self.tenants = Dictionary(
            uniqueKeysWithValues: tenants.map { domain, own in
                (domain, Realm((own ?? common).map { ByteString($0) } ?? domain, ofTenant: domain))
            })
    }

    /// The realm of a domain's users; a domain without a realm in the settings is its own realm.
    package func realm(for domain: ByteString) -> Realm {
        if !tenants.isEmpty, let own = tenants[domain.lowercased()] { return own }
        return common ?? Realm(domain.lowercased())
    }

    /// The texts of the realms of the given domains in lower case, without repetitions.
    package func texts(of domains: [ByteString]) -> [ByteString] {
        var texts: [ByteString] = []
        for domain in domains {
            let text = realm(for: domain).text.lowercased()
            if !texts.contains(text) { texts.append(text) }
        }
        return texts
    }
}
