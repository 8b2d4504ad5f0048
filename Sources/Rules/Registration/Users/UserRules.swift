package import Bytes

/// The rules by which users are looked for outside the store.
package struct UserRules: Hashable, Sendable {
    /// One source of users.
    package struct Source: Hashable, Sendable {
        /// The name in the settings.
        package var name: String
        /// The domains whose users the source has; empty for all domains.
        package var domains: Set<ByteString>
        /// The algorithms for which the source has a hash of every user.
        package var algorithms: Set<DigestAlgorithm>
        /// The maximum number of simultaneous questions.
        package var parallel: Int

        package init(
            name: String, domains: Set<ByteString> = [], algorithms: Set<DigestAlgorithm> = [.md5], parallel: Int = 8
        ) {
            self.name = name
            self.domains = domains
            self.algorithms = algorithms
            self.parallel = max(parallel, 1)
        }
    }

    /// The sources in the order in which they are asked. The store is always asked before them.
    package var sources: [Source] = []
    /// How long a user is admitted without another question.
    package var knownFor: Duration = .seconds(300)
    /// How old an answer may be by which somebody is refused.
    package var refusedFor: Duration = .seconds(10)
    /// How long the last answer counts while the source is away.
    package var keptFor: Duration = .seconds(86_400)
    /// The maximum number of remembered users.
    package var remembered = 100_000
    /// How long a request waits for an answer.
    package var patience: Duration = .seconds(2)

    package init() {}

    /// The algorithms that all sources have; `nil` without sources.
    package var algorithms: Set<DigestAlgorithm>? {
        guard let first = sources.first else { return nil }
        return sources.dropFirst().reduce(first.algorithms) { $0.intersection($1.algorithms) }
    }
}

/// Identifies one question to a source.
package struct UserTicket: Hashable, Sendable {
    package let number: UInt64
    package init(_ number: UInt64) { self.number = number }
}

/// A question for one user, which the shell passes to a source.
package struct UserQuestion: Hashable, Sendable {
    package let ticket: UserTicket
    /// The place of the source in ``UserRules/sources``.
    package let source: Int
    package let name: ByteString
    package let domain: ByteString
    package let realm: ByteString

    package init(ticket: UserTicket, source: Int, name: ByteString, domain: ByteString, realm: ByteString) {
        self.ticket = ticket
        self.source = source
        self.name = name
        self.domain = domain
        self.realm = realm
    }
}
