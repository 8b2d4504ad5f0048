import Bytes
package import HTTPServices
import ProxyRuntime
import Timekeeping

// What the control socket says and takes, as JSON. The command line reads the same types.

package struct HeldCallReport: Codable, Sendable, DescribedBody {
    package static let schemaName: String? = "HeldCall"
    package static let notes: [String: JSONSchema] = [
        "sleepingDevices": .words("Names, as in the list of a user's devices.")
    ]

    /// The number to end the call by; later calls have higher ones.
    package var id: UInt64 = 0
    package var callRef: String
    package var aor: String
    package var callID: String
    /// Unix seconds.
    package var receivedAt: Int64
    package var sleeping: Int
    package var ringing: Int
    package var sleepingDevices: [String]
    package var ringingDevices: [String]
}

package struct BucketEntryReport: Codable, Sendable, DescribedBody {
    package static let schemaName: String? = "MissedCall"
    package static let notes: [String: JSONSchema] = [
        "isOver": .words("False while the call is being offered."),
        "devices": .words("Names of those that are still to be told."),
    ]

    package var callRef: String
    package var caller: String
    /// Unix seconds.
    package var date: Int64
    package var isOver: Bool
    package var devices: [String]
}

package struct MessageReport: Codable, Sendable, DescribedBody {
    package static let schemaName: String? = "WaitingMessage"
    package static let notes: [String: JSONSchema] = [
        "id": .words("Later messages have higher ones."),
        "devices": .words(
            "Names of those that have not got it; none when all are gone, and the next that comes shall."),
    ]

    package var id: UInt64
    package var aor: String
    package var sender: String
    /// Unix seconds.
    package var receivedAt: Int64
    package var expiresAt: Int64
    package var bytes: Int
    package var devices: [String]
}

/// Some of the messages that wait, oldest first.
package struct MessagePage: Codable, Sendable {
    package var messages: [MessageReport]
    /// The `after` of the next page; `nil` on the last.
    package var next: UInt64?
}

package struct BindingReport: Codable, Sendable, DescribedBody {
    package static let schemaName: String? = "Device"
    package static let notes: [String: JSONSchema] = [
        "name": .words("Short; no other device of the user has it."),
        "flow": .words("Where it registered from; missing when it has not."),
        "token": .words("Provider and the start of the token; missing without push."),
        "state": .words(
            "awake: it can be called where it registered; asleep: a push must wake it; unknown: it registered over UDP, where nothing tells."
        ),
        "userAgent": .words("What the phone says that it is, at most 128 bytes of it; missing when it says nothing."),
        "app": .words("The app of the settings that its pushes go by; missing without push."),
        "lastPushAt": .words("When its last push was asked for, in Unix seconds; missing where none is on record."),
        "lastPush": .words("What became of it."),
    ]

    /// The device's number, as text: it may be beyond 2^53, where not every reader of JSON reads numbers exactly.
    package var id: String
    /// What people call it: short, the same after a restart, and no other device of the user has it.
    package var name: String
    package var contact: String
    package var flow: String?
    package var token: String?
    package var isFresh: Bool
    /// Unix seconds: when it last registered or was reported.
    package var registeredAt: Int64
    package var state: String
    /// What its last REGISTER said, and only said.
    package var userAgent: String?
    package var app: String?
    package var lastPushAt: Int64?
    package var lastPush: String?
}

package struct ProviderReport: Codable, Sendable, DescribedBody {
    package static let schemaName: String? = "Provider"

    package var name: String
    package var isEnabled: Bool
    package var apps: [PushAppFigures] = []
}

/// How the pushes of one app have fared since the start.
package struct PushAppFigures: Codable, Sendable {
    /// The name of the provider, or `provider/name` of a further app.
    package var name: String
    /// Whether requests go out. Otherwise the provider was not reached, and one push now and then finds out whether it
    /// is back.
    package var isReachable: Bool
    package var accepted: Int
    package var failed: Int
    package var deadTokens: Int
    package var credentialsRefused: Int
    /// Pushes whose tokens belong to another app.
    package var foreignTokens: Int
    /// How many pushes wait for their turn.
    package var queued: Int
    /// How many pushes were sent and are not answered.
    package var inFlight: Int
    /// Why the provider was not reached at the last try; `nil` once it has answered.
    package var problem: String?
    /// The provider's word when it last refused our credentials; `nil` once it has accepted a push again.
    package var refusal: String?
    /// Unix seconds.
    package var refusedAt: Int64?
}

package struct UserReport: Codable, Sendable {
    /// `user@domain`.
    package var name: String
}

/// Some of the users, by domain and name.
package struct UserPage: Codable, Sendable {
    package var users: [UserReport]
    /// The `after` of the next page; `nil` on the last.
    package var next: String?
}

/// Some of the calls that wait or ring, oldest first; a page may be short, or empty, although there is another.
package struct HeldCallPage: Codable, Sendable {
    package var calls: [HeldCallReport]
    /// The `after` of the next page; `nil` on the last.
    package var next: UInt64?
}

/// How many entries were removed.
package struct RemovalReport: Codable, Sendable {
    package var removed: Int
}

/// A user to add or change, by password or as ``UserCredentials``.
package struct UserRequest: Codable, Sendable, DescribedBody {
    package static let notes: [String: JSONSchema] = [
        "name": .text(3...512).described("`user@domain`"), "password": .text(1 ... .max),
        "ha1MD5": .hexadecimal(32), "ha1SHA256": .hexadecimal(64), "ha1SHA512_256": .hexadecimal(64),
    ]

    package var name: String
    package var password: String?
    package var ha1MD5: String?
    package var ha1SHA256: String?
    package var ha1SHA512_256: String?

    /// The hashes to store, made from the password where that is given.
    ///
    /// - Throws: a sentence for whoever asked.
    func credentials(_ realms: UserRealms) throws(StartError) -> UserCredentials {
        switch (password, ha1MD5, ha1SHA256) {
        case (let password?, nil, nil) where ha1SHA512_256 == nil:
            guard !password.isEmpty else { throw StartError("the password is empty") }
            return try UserCredentials(name: name, password: password, realms: realms)
        case (nil, let md5?, let sha256?):
            return UserCredentials(name: name, ha1MD5: md5, ha1SHA256: sha256, ha1SHA512_256: ha1SHA512_256)
        case (_, _, _): throw StartError("expected a password, or ha1MD5 and ha1SHA256 with ha1SHA512_256 or without")
        }
    }
}

/// A user to add or change; hashes only, never the password (RFC 7616 section 3.4.2: HA1).
package struct UserCredentials: Codable, Sendable {
    package var name: String
    package var ha1MD5: String
    package var ha1SHA256: String
    /// Without it, SHA-512-256 is offered to nobody: a challenge must not tell one user from another.
    package var ha1SHA512_256: String?

    package init(name: String, ha1MD5: String, ha1SHA256: String, ha1SHA512_256: String? = nil) {
        self.name = name
        self.ha1MD5 = ha1MD5
        self.ha1SHA256 = ha1SHA256
        self.ha1SHA512_256 = ha1SHA512_256
    }
}

package struct APIKeyReport: Codable, Sendable, DescribedBody {
    package static let schemaName: String? = "Key"

    package var name: String
    /// The names of the scopes, with commas between them.
    package var scopes: String
    /// Unix seconds.
    package var createdAt: Int64
}

/// An operator's request to add a key. It holds the hash, never the key itself.
package struct APIKeyRequest: Codable, Sendable, DescribedBody {
    package static let notes: [String: JSONSchema] = [
        "name": .name, "hash": .hexadecimal(64).described("SHA-256 of the key."),
        "scopes": .words("Names with commas."),
    ]

    package var name: String
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
