package import Bytes

/// A user who can register and call, with the HA1 for each algorithm in lower-case hexadecimal.
///
/// The description of a user contains no HA1, because an HA1 is as secret as the password.
package struct DigestUser: Hashable, Sendable, CustomStringConvertible {
    package let name: ByteString
    package let realm: ByteString
    package let ha1: [DigestAlgorithm: ByteString]

    package init(name: ByteString, realm: ByteString, ha1: [DigestAlgorithm: ByteString]) {
        self.name = name
        self.realm = realm
        self.ha1 = ha1
    }

    /// Creates a user from a password, and computes the HA1 for each of the algorithms (RFC 7616 section 3.4.2).
    package init(
        name: ByteString, realm: ByteString, password: ByteString, algorithms: [DigestAlgorithm],
        functions: DigestFunctions
    ) {
        var ha1: [DigestAlgorithm: ByteString] = [:]
        for algorithm in algorithms {
            var text: [UInt8] = []
            text.append(name)
            text.append(":")
            text.append(realm)
            text.append(":")
            text.append(password)
            ha1[algorithm] = ByteString(functions.hexHash(algorithm, text))
        }
        self.init(name: name, realm: realm, ha1: ha1)
    }

    package var description: String { "\(name) in \(realm)" }
}

/// All users, in memory. User names and realms are case-sensitive.
package struct UserDirectory: Sendable {
    private struct Key: Hashable {
        let name: ByteString
        let realm: ByteString
    }

    private var users: [Key: DigestUser] = [:]
    /// For each algorithm, the number of users with a hash of the algorithm.
    private var hashCounts: [DigestAlgorithm: Int] = [:]

    package init() {}

    /// Adds a user, or replaces the user with the same name and realm.
    package mutating func add(_ user: DigestUser) {
        let old = users.updateValue(user, forKey: Key(name: user.name.compacted(), realm: user.realm.compacted()))
        count(old, by: -1)
        count(user, by: 1)
    }

    /// Removes the user with the given name and realm.
    ///
    /// - Returns: the removed user; `nil` if no such user exists.
    @discardableResult
    package mutating func remove(name: ByteString, realm: ByteString) -> DigestUser? {
        let old = users.removeValue(forKey: Key(name: name, realm: realm))
        count(old, by: -1)
        return old
    }

    /// Whether all users can answer a challenge with the given algorithm.
    package func allHave(_ algorithm: DigestAlgorithm) -> Bool { hashCounts[algorithm, default: 0] == users.count }

    private mutating func count(_ user: DigestUser?, by change: Int) {
        for algorithm in user?.ha1.keys ?? [:].keys { hashCounts[algorithm, default: 0] += change }
    }

    package func user(named name: ByteString, realm: ByteString) -> DigestUser? {
        users[Key(name: name, realm: realm)]
    }
}
