package import Bytes
package import Registration

/// What the services ask that hear of devices over HTTP.
extension ProxyEngine {
    /// The user of that name.
    ///
    /// - Parameters:
    ///   - user: without escapes.
    ///   - domain: `nil` for the first of our domains.
    /// - Returns: `nil` when the domain is not ours.
    package func aor(of user: ByteString, in domain: ByteString?) -> AddressOfRecord? {
        let host = (domain ?? identity.domains.first ?? .empty).lowercased()
        return !user.isEmpty && identity.domains.contains(host) ? AddressOfRecord(user: user, host: host) : nil
    }

    /// Whether the user may show that password instead of a digest. Takes as long for users who do not exist.
    package func isPassword(_ password: ByteString, of aor: AddressOfRecord) -> Bool {
        digest.isPassword(password, of: aor.user, realm: digest.realm(for: aor.host), users: registrar.users)
    }
}
