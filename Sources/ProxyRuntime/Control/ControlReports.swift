import SIPGrammar
import Timekeeping

/// What the control socket says and takes, as JSON. The command line reads the same types.

package struct HeldCallReport: Codable, Sendable {
    package var callRef: String
    package var aor: String
    package var callID: String
    /// Unix seconds.
    package var receivedAt: Int64
    package var sleeping: Int
    package var ringing: Int
}

package struct BucketEntryReport: Codable, Sendable {
    package var callRef: String
    package var caller: String
    /// Unix seconds.
    package var date: Int64
    /// The call ended unanswered; false while it is being offered.
    package var isOver: Bool
    /// The devices the call is still to be reported to.
    package var devices: [UInt64]
}

package struct BindingReport: Codable, Sendable {
    package var id: UInt64
    package var contact: String
    package var flow: String
    /// Provider and the start of the token; `nil` for an ordinary contact.
    package var token: String?
    package var isFresh: Bool
}

package struct ProviderReport: Codable, Sendable {
    package var name: String
    package var isEnabled: Bool
    package var apps: [PushAppFigures] = []
}

/// How the pushes of one app have fared since the start.
package struct PushAppFigures: Codable, Sendable {
    /// The provider's, or `provider/name` of a further app.
    package var name: String
    /// Requests go out; otherwise the provider was not reached, and one push now and then finds out whether it is back.
    package var isReachable: Bool
    package var accepted: Int
    package var failed: Int
    package var deadTokens: Int
    package var credentialsRefused: Int
    /// Waiting for their turn, and being sent.
    package var queued: Int
    package var inFlight: Int
    /// The provider's word when it last refused our credentials; `nil` once it has accepted a push again.
    package var refusal: String?
    /// Unix seconds.
    package var refusedAt: Int64?
}

package struct UserReport: Codable, Sendable {
    /// `user@domain`.
    package var name: String
}

/// A user to add or change; hashes only, never the password (RFC 7616 section 3.4.2: HA1).
package struct UserCredentials: Codable, Sendable {
    package var name: String
    package var ha1MD5: String
    package var ha1SHA256: String

    package init(name: String, ha1MD5: String, ha1SHA256: String) {
        self.name = name
        self.ha1MD5 = ha1MD5
        self.ha1SHA256 = ha1SHA256
    }
}

package struct APIKeyReport: Codable, Sendable {
    package var name: String
    /// Names with commas.
    package var scopes: String
    /// Unix seconds.
    package var createdAt: Int64
}

/// A key to add; its hash only, never the key itself.
package struct APIKeyRequest: Codable, Sendable {
    package var name: String
    /// SHA-256, hexadecimal.
    package var hash: String
    package var scopes: String

    package init(name: String, secret: APIKeySecret, scopes: Set<APIScope>) {
        self.name = name
        hash = String(decoding: Hex.encode(secret.hash), as: UTF8.self)
        self.scopes = scopes.names
    }

    /// `nil` when a part is not well-formed.
    func key(at date: UnixTime) -> APIKey? {
        guard let hash = Hex.decode(Array(hash.utf8)), let scopes = APIScope.set(scopes) else { return nil }
        return APIKey(name: name, hash: hash, scopes: scopes, createdAt: date)
    }
}

extension APIKeyReport {
    init(_ key: APIKey) { self.init(name: key.name, scopes: key.scopes.names, createdAt: key.createdAt.seconds) }
}
