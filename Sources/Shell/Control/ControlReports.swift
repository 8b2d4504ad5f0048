import Bytes
package import HTTPServices
import ProxyRuntime
import Timekeeping

// Requests and answers of the control socket, as JSON. The command line encodes and decodes the same types.

package struct HeldCallReport: Codable, Sendable, DescribedBody {
    package static let schemaName: String? = "HeldCall"
    package static let notes: [String: JSONSchema] = [
        "sleepingDevices": .words("Names from the list of a user's devices.")
    ]

    /// The number by which operators end the call. Later calls have higher numbers.
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
        "isOver": .words("False while the call still rings or waits."),
        "devices": .words("Names of the devices that are not notified yet."),
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
        "id": .words("Later messages have higher ids."),
        "devices": .words(
            "Names of the devices that have not received it. Empty if all devices are gone; then the next device that registers gets it."
        ),
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

/// Part of the messages that wait, oldest first.
package struct MessagePage: Codable, Sendable {
    package var messages: [MessageReport]
    /// The `after` of the next page; `nil` on the last page.
    package var next: UInt64?
}

package struct BindingReport: Codable, Sendable, DescribedBody {
    package static let schemaName: String? = "Device"
    package static let notes: [String: JSONSchema] = [
        "name": .words("A short name, unique among the user's devices."),
        "flow": .words("The address from which it registered; missing if it has not registered."),
        "token": .words("The provider and the first characters of the token; missing without push."),
        "state": .words(
            "awake: its connection is open; asleep: a push must wake it; unknown: it registered over UDP, which has no connection."
        ),
        "userAgent": .words("The first 128 bytes of the phone's User-Agent; missing if it sends none."),
        "app": .words("The app in the settings that sends its pushes; missing without push."),
        "lastPushAt": .words("When its last push was requested, in Unix seconds; missing if none is on record."),
        "lastPush": .words("The result of that push."),
    ]

    /// The device's number as text: it can exceed 2^53, and some readers of JSON read such numbers inexactly.
    package var id: String
    /// A short name for people. It stays the same after a restart and is unique among the user's devices.
    package var name: String
    package var contact: String
    package var flow: String?
    package var token: String?
    package var isFresh: Bool
    /// Unix seconds: the time of its last REGISTER or report.
    package var registeredAt: Int64
    package var state: String
    /// The User-Agent of its last REGISTER. It is not verified.
    package var userAgent: String?
    package var app: String?
    package var lastPushAt: Int64?
    package var lastPush: String?
}

package struct ProviderReport: Codable, Sendable, DescribedBody {
    package static let schemaName: String? = "Provider"
    package static let notes: [String: JSONSchema] = [
        "isEnabled": .words("False if it was switched off with disable."),
        "isPaused": .words("True while nothing is sent to it."),
    ]

    package var name: String
    package var isEnabled: Bool
    package var isPaused = false
    package var apps: [PushAppFigures] = []
}

/// The contacts that switching a provider off ends or changes.
package struct ProviderDisableReport: Codable, Sendable, DescribedBody {
    package static let notes: [String: JSONSchema] = [
        "contactsEnded": .words("Contacts that end, because only a push could reach their phones."),
        "contactsOrdinary": .words("Contacts whose phones are called without a push until they expire."),
    ]

    package var contactsEnded: Int
    package var contactsOrdinary: Int
}

/// The push statistics of one app since the start.
package struct PushAppFigures: Codable, Sendable {
    /// The name of the provider, or `provider/name` for a further app.
    package var name: String
    /// Whether pushes are sent. If false, the breaker is open: the provider could not be reached, and only an
    /// occasional probe is sent.
    package var isReachable: Bool
    package var accepted: Int
    package var failed: Int
    package var deadTokens: Int
    package var credentialsRefused: Int
    /// Pushes that failed because the token belongs to another app.
    package var foreignTokens: Int
    /// How many pushes wait in the queue.
    package var queued: Int
    /// How many pushes were sent and are unanswered.
    package var inFlight: Int
    /// Why the provider could not be reached at the last try; `nil` once the provider has answered again.
    package var problem: String?
    /// The provider's reason when it last refused our credentials; `nil` once it has accepted another push.
    package var refusal: String?
    /// Unix seconds.
    package var refusedAt: Int64?
    /// The state of the credentials.
    package var credentials = CredentialReport()
}

package struct UserReport: Codable, Sendable {
    /// `user@domain`.
    package var name: String
}

/// Part of the users, by domain and name.
package struct UserPage: Codable, Sendable {
    package var users: [UserReport]
    /// The `after` of the next page; `nil` on the last page.
    package var next: String?
}

/// Part of the calls that wait or ring, oldest first. A page may be short or empty although another one follows.
package struct HeldCallPage: Codable, Sendable {
    package var calls: [HeldCallReport]
    /// The `after` of the next page; `nil` on the last page.
    package var next: UInt64?
}

/// The number of removed entries.
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

    /// The hashes to store. If the request has a password, the hashes are computed from it.
    ///
    /// - Throws: a sentence for the caller.
    func credentials(_ realms: UserRealms) throws(StartError) -> UserCredentials {
        switch (password, ha1MD5, ha1SHA256) {
        case (let password?, nil, nil) where ha1SHA512_256 == nil:
            guard !password.isEmpty else { throw StartError("the password is empty") }
            return try UserCredentials(name: name, password: password, realms: realms)
        case (nil, let md5?, let sha256?):
            return UserCredentials(name: name, ha1MD5: md5, ha1SHA256: sha256, ha1SHA512_256: ha1SHA512_256)
        case (_, _, _): throw StartError("expected a password, or ha1MD5 and ha1SHA256 and optionally ha1SHA512_256")
        }
    }
}

/// A user to add or change, with the HA1 hashes of RFC 7616 section 3.4.2 and without the password.
package struct UserCredentials: Codable, Sendable {
    package var name: String
    package var ha1MD5: String
    /// Without one of these hashes, the daemon offers its function to no user: a challenge must not reveal which users exist.
    package var ha1SHA256: String?
    package var ha1SHA512_256: String?

    package init(name: String, ha1MD5: String, ha1SHA256: String? = nil, ha1SHA512_256: String? = nil) {
        self.name = name
        self.ha1MD5 = ha1MD5
        self.ha1SHA256 = ha1SHA256
        self.ha1SHA512_256 = ha1SHA512_256
    }
}

package struct APIKeyReport: Codable, Sendable, DescribedBody {
    package static let schemaName: String? = "Key"

    package var name: String
    /// The names of the scopes, separated by commas.
    package var scopes: String
    /// Unix seconds.
    package var createdAt: Int64
}

/// An operator's request to add a key. It contains the key's hash, never the key.
package struct APIKeyRequest: Codable, Sendable, DescribedBody {
    package static let notes: [String: JSONSchema] = [
        "name": .name, "hash": .hexadecimal(64).described("SHA-256 of the key."),
        "scopes": .words("Names separated by commas."),
    ]

    package var name: String
    package var hash: String
    package var scopes: String

    package init(name: String, secret: APIKeySecret, scopes: Set<APIScope>) {
        self.name = name
        hash = String(decoding: Hex.encode(secret.hash), as: UTF8.self)
        self.scopes = scopes.names
    }

    /// `nil` if a part is not well-formed.
    func key(at date: UnixTime) -> APIKey? {
        guard let hash = Hex.decode(Array(hash.utf8)), let scopes = APIScope.set(scopes) else { return nil }
        return APIKey(name: name, hash: hash, scopes: scopes, createdAt: date)
    }
}

extension APIKeyReport {
    init(_ key: APIKey) { self.init(name: key.name, scopes: key.scopes.names, createdAt: key.createdAt.seconds) }
}
