package import Bytes

/// The secrets of one user as a source outside the store has them. Nothing in them is checked yet.
package struct UserSecrets: Hashable, Sendable {
    /// HA1 in hexadecimal.
    package var ha1: [DigestAlgorithm: ByteString] = [:]
    package var password: ByteString?
    /// The realm of the hashes; `nil` if the source does not know it.
    package var realm: ByteString?
    /// The user's name as the source writes it; `nil` if the source does not say it.
    package var name: ByteString?

    package init() {}

    /// The user with these secrets, or the fault of the secrets.
    ///
    /// - Parameters:
    ///   - name: the name that was asked for.
    ///   - realm: the realm of the challenge.
    ///   - algorithms: the algorithms for which a password is hashed.
    ///   - functions: the hash functions.
    /// - Returns: the user. ``UserAnswer/unknown`` stands for a user without a password, and for another user, whom a
    ///   database finds when it compares without case or accents.
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

/// Logs show no secrets.
extension UserSecrets: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String { "(secret)" }
    package var debugDescription: String { "(secret)" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

/// The answer of a source outside the store to the question for one user.
package enum UserAnswer: Hashable, Sendable {
    case found(UserSecrets)
    case unknown
    /// The source answered, but the answer about this user cannot be used.
    case unusable(UserFault)
    /// The source gave no answer. Nobody knows whether the user exists.
    case away(UserFault)
}

/// The fault of a source or of one answer, as a sentence for operators, and the cure.
package struct UserFault: Error, Hashable, Sendable {
    package let sentence: String
    package let cure: String

    package init(_ sentence: String, cure: String) {
        self.sentence = sentence
        self.cure = cure
    }

    package static let silent = UserFault(
        "it does not answer in time", cure: "Check whether the server runs, and how long the same query takes there.")
    package static let severalRows = UserFault(
        "the query yields several rows for one user",
        cure: "Let the query use :domain or :realm as well as :user, so that it yields one row.")
    package static let noSecret = UserFault(
        "the answer has neither ha1 nor password",
        cure: "Name the columns of the query ha1, ha1_sha256 or password, by AS where the table has other names.")
    package static let tooLong = UserFault(
        "the answer is too long", cure: "Let the source return one user's secrets and nothing else.")

    static func badHash(_ algorithm: DigestAlgorithm) -> UserFault {
        UserFault(
            "the hash of a user is not \(algorithm.digitCount) hexadecimal digits",
            cure: "Return the \(algorithm.rawValue) hash of user:realm:password, or return password.")
    }

    static func otherRealm(_ realm: ByteString, ours: ByteString) -> UserFault {
        UserFault(
            "the hash of a user is for realm \(realm), and phones are asked in realm \(ours)",
            cure: "Set digest.realm to \(realm), or return password instead of a hash.")
    }
}
