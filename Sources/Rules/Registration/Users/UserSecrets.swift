package import Bytes

/// The unchecked secrets of one user from a source outside the store.
package struct UserSecrets: Hashable, Sendable {
    /// The digest hashes HA1 in hexadecimal (RFC 7616 section 3.4.2).
    package var ha1: [DigestAlgorithm: ByteString] = [:]
    package var password: ByteString?
    /// The realm of the hashes; `nil` if the source returns no realm.
    package var realm: ByteString?
    /// The user's name as the source spells it; `nil` if the source returns no name.
    package var name: ByteString?

    package init() {}

    /// Checks the secrets, and makes the user from them.
    ///
    /// - Parameters:
    ///   - name: the name in the query to the source.
    ///   - realm: the realm of the daemon's challenge.
    ///   - algorithms: the digest algorithms for which the password is hashed.
    ///   - functions: the hash functions.
    /// - Returns: the user, or the fault of the secrets; `nil` for a user without secret, and if a case-insensitive
    ///   database found another user.
    func user(
        named name: ByteString, realm: ByteString, algorithms: [DigestAlgorithm], functions: DigestFunctions
    ) -> Result<DigestUser?, UserFault> {
        if let own = self.name, own != name { return .success(nil) }
        let password = self.password ?? .empty
        guard password.count <= Self.longestPassword else { return .failure(.tooLong) }
        var hashes = ha1.filter { !$0.value.isEmpty }
        guard !hashes.isEmpty || !password.isEmpty else { return .success(nil) }
        if let own = self.realm, !own.isEmpty, own != realm {
            if !hashes.isEmpty, password.isEmpty { return .failure(.otherRealm(own, ours: realm)) }
            hashes = [:]
        }
        var user: [DigestAlgorithm: ByteString] = [:]
        if !password.isEmpty {
            user =
                DigestUser(name: name, realm: realm, password: password, algorithms: algorithms, functions: functions)
                .ha1
        }
        for (algorithm, text) in hashes {
            guard text.count == algorithm.digitCount, text.allSatisfy({ $0.hexValue != nil }) else {
                return .failure(.badHash(algorithm))
            }
            user[algorithm] = text.lowercased()
        }
        return .success(DigestUser(name: name, realm: realm, ha1: user))
    }

    private static let longestPassword = 1024
}

/// Descriptions hide the secrets, so that no secret gets into a log.
extension UserSecrets: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String { "(secret)" }
    package var debugDescription: String { "(secret)" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

/// The answer of a source outside the store to the query for one user.
package enum UserAnswer: Hashable, Sendable {
    case found(UserSecrets)
    case unknown
    /// The source gave a wrong answer about the user, such as a hash for another realm.
    case unusable(UserFault)
    /// The source did not answer, so the user may exist or not.
    case away(UserFault)
}

/// A problem with a source of users or its answer: a sentence for operators, and the cure.
package struct UserFault: Error, Hashable, Sendable {
    package let sentence: String
    package let cure: String

    package init(_ sentence: String, cure: String) {
        self.sentence = sentence
        self.cure = cure
    }

    package static let silent = UserFault(
        "it does not answer in time",
        cure: "Check whether the server runs, and how long it takes to answer the same question.")
    package static let severalRows = UserFault(
        "the query yields several rows for one user",
        cure: "Compare :domain or :realm in the query besides :user, so that the query yields one row.")
    package static let noSecret = UserFault(
        "the answer has neither ha1 nor password",
        cure: "Let the query return a column ha1, ha1_sha256 or password, by AS if the table has other names.")
    package static let tooLong = UserFault(
        "the answer is too long", cure: "Let the source return one user's secrets and nothing else.")

    static func badHash(_ algorithm: DigestAlgorithm) -> UserFault {
        UserFault(
            "the hash of a user is not \(algorithm.digitCount) hexadecimal digits",
            cure: "Return the \(algorithm.rawValue) hash of user:realm:password, or return the password itself.")
    }

    static func otherRealm(_ realm: ByteString, ours: ByteString) -> UserFault {
        UserFault(
            "the hash of a user is for realm \(realm), and phones are asked in realm \(ours)",
            cure: "Set digest.realm to \(realm), or return the password instead of a hash.")
    }
}
