import Bytes
import Crypto
package import Timekeeping

/// The sessions of operators who use the web page, in memory. A session ends when its operator logs out, when its key
/// is removed, or when its time is over.
///
/// - The class is `@unchecked Sendable`, because only the event loop of the shard uses it.
package final class PageSessions: @unchecked Sendable {
    /// The SHA-256 hash of a session's secret; the secret itself is not kept in memory.
    package typealias Name = [UInt8]

    private struct Session {
        let key: String
        let keyHash: [UInt8]
        let endsAt: Instant
        var lastUse: Instant
    }

    /// The state of a session at a request.
    package enum State: Sendable {
        case open(APIKey)
        /// The session is unknown, or its time is over.
        case ended
        case keyRemoved
    }

    package static let limit = 1000
    /// The maximum number of sessions of one key, so that one key cannot displace the sessions of all keys.
    package static let limitOfKey = 20
    /// How long an operator's session lasts without a request.
    package static let idleTime: Duration = .seconds(30 * 60)
    /// How long an operator's session lasts at most.
    package static let lifetime: Duration = .seconds(12 * 3600)

    private let keys: APIKeyRing
    private var sessions: [Name: Session] = [:]

    package init(keys: APIKeyRing) { self.keys = keys }

    package var count: Int { sessions.count }

    /// Begins an operator's session with a key.
    ///
    /// - Returns: the secret of the session, 43 characters; `nil` if the system has no random bytes.
    package func begin(for key: APIKey, now: Instant) -> String? {
        guard let random = try? RandomBytes.make(32) else { return nil }
        let secret = String(decoding: Base64.url.encode(random), as: UTF8.self)
        makeRoom(for: key, now: now)
        sessions[Self.name(of: secret)] = Session(
            key: key.name, keyHash: key.hash, endsAt: now + Self.lifetime, lastUse: now)
        return secret
    }

    /// Removes sessions whose time is over, and the longest unused session if too many remain.
    private func makeRoom(for key: APIKey, now: Instant) {
        sessions = sessions.filter { !Self.isOver($0.value, now: now) }
        func removeOldest(_ isMeant: (Session) -> Bool) {
            let oldest = sessions.filter { isMeant($0.value) }.min { $0.value.lastUse < $1.value.lastUse }
            if let name = oldest?.key { sessions[name] = nil }
        }
        if sessions.values.count(where: { $0.key == key.name }) >= Self.limitOfKey {
            removeOldest { $0.key == key.name }
        }
        if sessions.count >= Self.limit { removeOldest { _ in true } }
    }

    /// Returns the state of the session, and notes that the operator uses it.
    package func use(_ name: Name, now: Instant) -> State {
        guard let session = sessions[name] else { return .ended }
        guard !Self.isOver(session, now: now) else {
            sessions[name] = nil
            return .ended
        }
        // A new API key with the name of a removed key has another hash.
        guard let key = keys[session.key], equalInConstantTime(key.hash, session.keyHash) else {
            sessions[name] = nil
            return .keyRemoved
        }
        sessions[name]?.lastUse = now
        return .open(key)
    }

    package func end(_ name: Name) { sessions[name] = nil }

    private static func isOver(_ session: Session, now: Instant) -> Bool {
        now >= session.endsAt || now - session.lastUse >= idleTime
    }

    /// The name of the session with the given secret.
    package static func name(of secret: String) -> Name { HashAlgorithm.sha256.digest(of: Array(secret.utf8)) }

    /// The token against forged requests (CSRF), which the page sends with each change. Another web site can neither
    /// compute the token nor read the answer with the token.
    package static func token(of secret: String) -> String {
        let digest = HashAlgorithm.sha256.digest(of: Array("sippushd page token \(secret)".utf8))
        return String(decoding: Base64.url.encode(digest), as: UTF8.self)
    }
}
