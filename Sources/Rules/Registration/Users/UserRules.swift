package import Bytes

/// The settings of the search for users in sources outside the store.
package struct UserRules: Hashable, Sendable {
    /// The settings of one source of users.
    package struct Source: Hashable, Sendable {
        /// The name of the source of users in the settings.
        package var name: String
        /// The domains whose users the source has; empty for users of all domains.
        package var domains: Set<ByteString>
        /// The digest algorithms for which the source has a hash of every user.
        package var algorithms: Set<DigestAlgorithm>
        /// The maximum number of queries that the source of users gets at the same time.
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

    /// The sources in the order in which the daemon asks them, after its own store.
    package var sources: [Source] = []
    /// How long a remembered answer accepts a user's right password without a new query.
    package var knownFor: Duration = .seconds(300)
    /// The maximum age at which an answer can refuse a password or a user without a new query.
    package var refusedFor: Duration = .seconds(10)
    /// How long the last good answer about a user counts while the source does not answer.
    package var keptFor: Duration = .seconds(86_400)
    /// The maximum number of users whose answers are remembered.
    package var remembered = 100_000
    /// How long a request or login waits for an answer of the sources.
    package var patience: Duration = .seconds(2)

    package init() {}

    /// The digest algorithms for which all sources have hashes; `nil` if the settings have no sources.
    package var algorithms: Set<DigestAlgorithm>? {
        guard let first = sources.first else { return nil }
        return sources.dropFirst().reduce(first.algorithms) { $0.intersection($1.algorithms) }
    }
}

/// The number of one query to a source of users; the answer has the number of its query.
package struct UserTicket: Hashable, Sendable {
    package let number: UInt64
    package init(_ number: UInt64) { self.number = number }
}

/// A query for one user, which `UserSources` passes to a database or HTTP server.
package struct UserQuestion: Hashable, Sendable {
    package let ticket: UserTicket
    /// The index of the source of users in ``UserRules/sources``.
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
