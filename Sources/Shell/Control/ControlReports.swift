import Bytes
package import HTTPServices
import ProxyRuntime
import Timekeeping

// The requests and answers of the control socket and the admin API, as JSON types that the daemon and the command line
// share.

package struct HeldCallReport: Codable, Sendable, DescribedBody {
    package static let schemaName: String? = "HeldCall"
    package static let notes: [String: JSONSchema] = [
        "caller": .words("The caller's user name or URI, as in the list of missed calls."),
        "sleepingDevices": .words("Names from the list of a user's devices."),
        "laterDevices": .words("Names of devices that ring later than the others."),
        "ringsUntil": .words("When the call ends if no phone answers, in Unix seconds."),
        "node": .words("The node of the cluster at which the call waits; missing without a cluster."),
    ]

    /// The number of the call, by which an operator can end the call.
    package var id: UInt64 = 0
    package var callRef: String
    package var aor: String
    package var callID: String
    /// The caller's user name or URI, as in the list of missed calls.
    package var caller: String
    /// The time at which the call arrived, in Unix seconds.
    package var receivedAt: Int64
    /// The time at which the call ends if no phone answers, in Unix seconds.
    package var ringsUntil: Int64
    package var sleeping: Int
    package var ringing: Int
    package var sleepingDevices: [String]
    package var ringingDevices: [String]
    package var laterDevices: [String]
    /// The name of the node at which the call waits; `nil` without a cluster.
    package var node: String?
}

package struct BucketEntryReport: Codable, Sendable, DescribedBody {
    package static let schemaName: String? = "MissedCall"
    package static let notes: [String: JSONSchema] = [
        "isOver": .words("False while the call still rings or waits."),
        "devices": .words("Names of the devices that are not notified yet."),
    ]

    package var callRef: String
    package var caller: String
    /// The time at which the missed call arrived, in Unix seconds.
    package var date: Int64
    package var isOver: Bool
    package var devices: [String]
}

package struct MessageReport: Codable, Sendable, DescribedBody {
    package static let schemaName: String? = "WaitingMessage"
    package static let notes: [String: JSONSchema] = [
        "id": .words("The id of the message. Later messages have higher ids."),
        "devices": .words(
            "Names of the devices that have not received the message. Empty if all devices are gone; then the next device that registers gets the message."
        ),
    ]

    package var id: UInt64
    package var aor: String
    package var sender: String
    /// The time at which the message arrived, in Unix seconds.
    package var receivedAt: Int64
    package var expiresAt: Int64
    package var bytes: Int
    package var devices: [String]
}

/// One page of the messages that wait for phones, oldest first.
package struct MessagePage: Codable, Sendable {
    package var messages: [MessageReport]
    /// The value of the query parameter `after` in a request for the next page; `nil` on the last page.
    package var next: UInt64?
}

package struct BindingReport: Codable, Sendable, DescribedBody {
    package static let schemaName: String? = "Device"
    package static let notes: [String: JSONSchema] = [
        "name": .words("A short name, unique among the user's devices."),
        "flow": .words("The address from which the device registered; missing if the device has not registered."),
        "token": .words("The provider and the first characters of the token; missing without push."),
        "state": .words(
            "awake: its connection is open; asleep: a push must wake it; unknown: it registered over UDP, which has no connection."
        ),
        "userAgent": .words("The first 128 bytes of the phone's User-Agent; missing if the phone sends none."),
        "app": .words(
            "The app in the settings that sends the device's pushes; missing for a device without push token."),
        "lastPushAt": .words(
            "When the device's last push was requested, in Unix seconds; missing if no push is on record."),
        "lastPush": .words("The result of the device's last push."),
        "node": .words(
            "The node of the cluster to which the device is connected; missing without a cluster, or if the node has ended."
        ),
        "nodeProblem": .words("Why the device's node did not answer, so that the state is unknown."),
    ]

    /// The device's number as text, because some JSON readers cannot read a number above 2^53 exactly.
    package var id: String
    /// A short name of the device for people, unique among the user's devices and unchanged after a restart.
    package var name: String
    package var contact: String
    package var flow: String?
    package var token: String?
    package var isFresh: Bool
    /// The time of the device's last REGISTER or report, in Unix seconds.
    package var registeredAt: Int64
    package var state: String
    /// The User-Agent of the device's last REGISTER; nobody verifies the value.
    package var userAgent: String?
    package var app: String?
    package var lastPushAt: Int64?
    package var lastPush: String?
    /// The node that has the device's flow; `nil` without a cluster, or if the node has ended.
    package var node: String?
    /// Why the device's node did not answer; `nil` if the state is known.
    package var nodeProblem: String?
}

package struct ProviderReport: Codable, Sendable, DescribedBody {
    package static let schemaName: String? = "Provider"
    package static let notes: [String: JSONSchema] = [
        "isEnabled": .words("False if the provider was switched off with disable."),
        "isPaused": .words("True while the provider is paused, so that no pushes are sent to it."),
    ]

    package var name: String
    package var isEnabled: Bool
    package var isPaused = false
    package var apps: [PushAppFigures] = []
}

/// The number of contacts that end or change when an operator switches a provider off.
package struct ProviderDisableReport: Codable, Sendable, DescribedBody {
    package static let notes: [String: JSONSchema] = [
        "contactsEnded": .words("Contacts that end, because only a push could reach their phones."),
        "contactsOrdinary": .words("Contacts whose phones are called without a push until they expire."),
    ]

    package var contactsEnded: Int
    package var contactsOrdinary: Int
}

/// The push statistics of one app since the daemon's start.
package struct PushAppFigures: Codable, Sendable {
    /// The provider's name for its first app, and `provider/name` for each further app.
    package var name: String
    /// Whether the daemon sends pushes to the push provider. If false, the circuit breaker is open after repeated
    /// failures, and one push at intervals tests the provider.
    package var isReachable: Bool
    package var accepted: Int
    package var failed: Int
    package var deadTokens: Int
    package var credentialsRefused: Int
    /// The number of pushes that failed because their token belongs to another app.
    package var foreignTokens: Int
    /// The number of pushes that wait in the queue.
    package var queued: Int
    /// The number of pushes that were sent and have no answer yet.
    package var inFlight: Int
    /// Why the provider could not be reached at the last attempt; `nil` after a later answer of the provider.
    package var problem: String?
    /// Why the provider last refused the daemon's credentials; `nil` after a later accepted push.
    package var refusal: String?
    /// The time at which the provider last refused the daemon's credentials, in Unix seconds.
    package var refusedAt: Int64?
    /// The state of the app's credentials at the provider.
    package var credentials = CredentialReport()
    /// The figures of the app's refresh pushes since the daemon's start; `nil` if the daemon has sent none.
    package var refreshes: RefreshReport?
    /// The busiest of the push servers that phones chose; `nil` for an app whose servers the settings name.
    package var hosts: [PushHostFigures]?
    /// The number of push servers that phones chose and that the daemon remembers; `nil` for an app whose servers the
    /// settings name.
    package var hostCount: Int?
}

/// How many refresh pushes an app's phones got, and how many phones registered.
package struct RefreshReport: Codable, Sendable {
    /// The numbers of first, second and third pushes.
    package var sent: [Int]
    /// The numbers of phones that registered after the first, second and third push, and before the next.
    package var came: [Int]
    /// The number of phones that got pushes and did not register before their expiry.
    package var never: Int
    /// The number of contacts whose push a limit or a pause has held back.
    package var heldBack: Int
}

/// The push statistics of one push server that phones chose.
package struct PushHostFigures: Codable, Sendable, DescribedBody {
    package static let schemaName: String? = "PushHost"
    package static let notes: [String: JSONSchema] = [
        "host": .words("The host, and the port if it is not 443."),
        "isReachable": .words("False while the breaker of the host is open."),
        "limited": .words("Answers with the status 429."),
        "problem": .words("Why the last request to the host got no answer."),
        "refusal": .words("Why the host refused the daemon's VAPID key, or why the daemon does not connect to it."),
    ]

    package var host: String
    package var isReachable: Bool
    package var accepted: Int
    package var failed: Int
    package var limited: Int
    package var queued: Int
    package var inFlight: Int
    package var problem: String?
    package var refusal: String?
}

package struct UserReport: Codable, Sendable {
    /// The user's name and domain, as `user@domain`.
    package var name: String
}

/// One page of the list of users, sorted by domain and name.
package struct UserPage: Codable, Sendable {
    package var users: [UserReport]
    /// The value of the query parameter `after` in a request for the next page; `nil` on the last page.
    package var next: String?
}

/// One page of the calls that wait or ring at all nodes, the oldest of each node first. A page of calls may have few
/// calls or none although another page follows.
package struct HeldCallPage: Codable, Sendable, DescribedBody {
    package static let schemaName: String? = "HeldCallPage"
    package static let notes: [String: JSONSchema] = [
        "total": .words("The number of all such calls. Missing for a key with domains."),
        "missingNodes": .words("The nodes of the cluster that did not answer, so that the page lacks their calls."),
    ]

    package var calls: [HeldCallReport]
    /// The value of the query parameter `after` in a request for the next page; `nil` on the last page.
    package var next: UInt64?
    /// The number of all calls that wait or ring; `nil` for a caller with domains.
    package var total: Int?
    /// The nodes that did not answer; `nil` if all nodes have answered.
    package var missingNodes: [MissingNode]?
}

/// The number of entries that an operator's removal deleted.
package struct RemovalReport: Codable, Sendable {
    package var removed: Int
}

/// A request to add or change a user, with a password or with the hashes of ``UserCredentials``.
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

    /// Returns the user's password hashes, computed from the password if the request has one.
    ///
    /// - Throws: an error with a sentence for the operator, if the request is faulty.
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
    /// The user's HA1 hash for SHA-256. If one user has no hash for an algorithm, the daemon offers the algorithm to no
    /// user, because a challenge must not reveal which users exist.
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
    package static let notes: [String: JSONSchema] = [
        "domains": .words("The domains that the key may reach. Missing if the key is for the whole daemon.")
    ]

    package var name: String
    /// The names of the API key's scopes, separated by commas.
    package var scopes: String
    /// The time at which the key was created, in Unix seconds.
    package var createdAt: Int64
    /// The domains that the key may reach; `nil` for the whole daemon.
    package var domains: [String]?
}

/// An operator's request to add a key, with the hash instead of the key.
package struct APIKeyRequest: Codable, Sendable, DescribedBody {
    package static let notes: [String: JSONSchema] = [
        "name": .name, "hash": .hexadecimal(64).described("SHA-256 of the key."),
        "scopes": .words("Names separated by commas."),
        "domains": .list(of: .text(1...253), 1...100).described(
            "The domains that the key may reach. Missing: the key is for the whole daemon."),
    ]

    package var name: String
    package var hash: String
    package var scopes: String
    /// The domains that the key may reach; `nil` for the whole daemon. An empty list is malformed. Otherwise a key for
    /// no domain could become a key for the whole daemon.
    package var domains: [String]?

    package init(name: String, secret: APIKeySecret, scopes: Set<APIScope>, domains: [String]? = nil) {
        self.name = name
        hash = String(decoding: Hex.encode(secret.hash), as: UTF8.self)
        self.scopes = scopes.names
        self.domains = domains
    }

    /// Returns the API key to store; `nil` if a part of the request is malformed.
    func key(at date: UnixTime) -> APIKey? {
        guard let hash = Hex.decode(Array(hash.utf8)), let scopes = APIScope.set(scopes),
            let reach = domains.map({ DomainScope(domains: $0) }) ?? .wholeDaemon
        else { return nil }
        return APIKey(name: name, hash: hash, scopes: scopes, createdAt: date, domains: reach)
    }

    /// Why a daemon with the given domains does not accept the API key; `nil` for an accepted key.
    package static func complaint(about key: APIKey, domains: [String]) -> String? {
        let own = domains.map { $0.lowercased() }
        if let unknown = key.domains.names?.first(where: { !own.contains($0) }) {
            return "\(unknown) is not one of this daemon's domains (\(domains.joined(separator: ", ")))"
        }
        guard key.domains == .wholeDaemon || key.scopes != [.metrics] else {
            return "the metrics are of the whole daemon, so a key with the scope metrics names no domains"
        }
        return nil
    }
}

extension APIKeyReport {
    init(_ key: APIKey) {
        self.init(
            name: key.name, scopes: key.scopes.names, createdAt: key.createdAt.seconds,
            domains: key.domains.names)
    }
}
