package import Bytes
package import Registration

/// Queries for the HTTP services by which apps report devices.
extension ProxyEngine {
    /// The AOR of a user in one of our domains.
    ///
    /// - Parameters:
    ///   - user: the user part, without percent-escapes.
    ///   - domain: the domain; `nil` for our first domain.
    /// - Returns: the AOR; `nil` if the domain is not ours or the user is empty.
    package func aor(of user: ByteString, in domain: ByteString?) -> AddressOfRecord? {
        let host = (domain ?? identity.domains.first ?? .empty).lowercased()
        return !user.isEmpty && identity.domains.contains(host) ? AddressOfRecord(user: user, host: host) : nil
    }

    /// Whether this is the user's password in clear text. The check takes equally long for unknown users.
    package func isPassword(_ password: ByteString, of aor: AddressOfRecord) -> Bool {
        digest.isPassword(password, of: aor.user, realm: digest.realm(for: aor.host), users: registrar.users)
    }
}
