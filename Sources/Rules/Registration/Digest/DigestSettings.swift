package import Settings

/// The hash functions that the daemon can offer for digest authentication (RFC 7616, RFC 8760).
package enum DigestAlgorithm: String, Hashable, Sendable, CaseIterable {
    case sha512_256 = "SHA-512-256"
    case sha256 = "SHA-256"
    case md5 = "MD5"

    /// The number of hexadecimal digits in a response or an HA1 of the algorithm.
    package var digitCount: Int { self == .md5 ? 32 : 64 }
}

/// The settings of challenges to phones and of credential checks.
package struct DigestSettings: SettingsGroup, Hashable {
    package var realm: String?
    package var algorithms: [DigestAlgorithm] = [.sha256, .md5]
    package var nonceLifetime: Duration = .seconds(60)
    package var nonceMemory = 65536
    package var allowsMissingQop = false
    package var reusesNonces = true
    package var oldClients = [Self.namelessClients, "baresip v0.", "baresip v1.", "SIPp"]

    /// The entry that stands for clients without a User-Agent in the list of old clients.
    static let namelessClients = "-"

    package init() {}

    package static let schema: [Setting<DigestSettings>] = [
        .string(
            "realm", \.realm, example: "example.org",
            "The realm that users see in the password dialog. Every stored password hash contains the realm: after a change of realm, set all passwords again. By default, each domain is its own realm."
        ),
        .list(
            "algorithms", of: .choice, \.algorithms,
            "The hash functions that the daemon offers to phones, the preferred one first: SHA-512-256, SHA-256, MD5. Leave out MD5 if every phone supports SHA-256. The daemon offers a hash function only if every user has a hash for this function. If a user lacks the hash, set the user's password again."
        ),
        .list(
            "old-clients", \.oldClients,
            "The clients that support only MD5. Each entry is the beginning of a `User-Agent`; \"-\" stands for clients without `User-Agent`. If MD5 is in `algorithms`, the daemon offers the clients in `old-clients` only MD5."
        ),
        .duration(
            "nonce-lifetime", in: .seconds(5)...(.seconds(3600)), \.nonceLifetime,
            "How long a phone is allowed to use the nonce of a challenge. A phone that uses an older nonce gets a new challenge with stale=true. The phone answers the new challenge without asking its user."
        ),
        .integer(
            "nonce-memory", in: 1024...16_777_216, \.nonceMemory,
            "How many answered challenges the daemon remembers, so that it accepts no answer twice. If phones answer more challenges than `nonce-memory` within `nonce-lifetime`, the oldest challenges become stale early."
        ),
        .bool(
            "reuse-nonces", \.reusesNonces,
            "Allow a registered phone to use its nonce again, with a higher nonce count, until its contact is removed. The nonce stays valid at a new address of the phone and after a restart of the daemon. A phone that wakes can therefore register with one REGISTER, without a challenge. Over UDP, the daemon still challenges a phone at a new address. Pushes for calls contain a nonce if their payload format has a field for it."
        ),
        .bool(
            "allow-missing-qop", \.allowsMissingQop,
            "Accept the digest credentials of old phones, which send no `qop` and no nonce count. If `allow-missing-qop` is `true`, each challenge is valid for one request only."
        ),
    ]

    package func complaints() -> [SettingComplaint] {
        guard !algorithms.isEmpty else { return [SettingComplaint("needs at least one", key: "algorithms")] }
        guard Set(algorithms).count == algorithms.count else {
            return [SettingComplaint("names one twice", key: "algorithms")]
        }
        return []
    }
}
