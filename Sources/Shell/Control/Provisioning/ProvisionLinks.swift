import Bytes
import Persistence
import Timekeeping

/// All links with which phones get accounts, in memory: one unused link for each user, and the links that were used in
/// the last 30 days.
///
/// ``ProvisionLinks`` reads no clock and does no I/O. If two phones use a link at the same time, the store decides
/// which phone gets the account, because it writes the uses one after the other.
struct ProvisionLinks {
    /// The result of a look-up.
    enum Finding: Hashable {
        case unused(StoredProvisionLink)
        /// A phone has used the link, so a second use can be a theft.
        case used(StoredProvisionLink)
        /// The token never belonged to a link, or the link has expired, ended or been revoked.
        case unknown
    }

    /// The maximum numbers of unused links in the whole daemon and for one domain.
    static let limit = 10_000
    static let limitForDomain = 1_000
    /// How many used links the daemon remembers at most, and how long.
    static let usedLimit = 10_000
    static let usedAge: Duration = .seconds(30 * 86_400)

    private struct User: Hashable {
        let name: ByteString
        let realm: ByteString
    }

    private var links: [[UInt8]: StoredProvisionLink] = [:]
    /// The hash of each user's unused link.
    private var unused: [User: [UInt8]] = [:]

    init(_ stored: [StoredProvisionLink] = []) { for link in stored { add(link) } }

    private func user(of link: StoredProvisionLink) -> User { User(name: link.name, realm: link.realm) }

    /// Adds a link that the store has. The user's earlier link becomes invalid if it is unused.
    mutating func add(_ link: StoredProvisionLink) {
        if link.usedAt == nil {
            removeUnused(of: link.name, realm: link.realm)
            unused[user(of: link)] = link.hash
        }
        links[link.hash] = link
    }

    /// Removes the user's unused link, because it was revoked, or because the user is gone or has another password.
    ///
    /// - Returns: whether the user had an unused link.
    @discardableResult
    mutating func removeUnused(of name: ByteString, realm: ByteString) -> Bool {
        guard let hash = unused.removeValue(forKey: User(name: name, realm: realm)) else { return false }
        return links.removeValue(forKey: hash) != nil
    }

    func hasUnused(of name: ByteString, realm: ByteString) -> Bool { unused[User(name: name, realm: realm)] != nil }

    mutating func used(_ use: ProvisionLinkUse) {
        guard var link = links[use.hash], link.usedAt == nil else { return }
        link.usedAt = use.date
        link.usedFrom = use.source
        links[use.hash] = link
        if unused[user(of: link)] == use.hash { unused[user(of: link)] = nil }
    }

    /// Removes links that have expired unused, and used links that are too old or too many, as the store does.
    mutating func prune(now: UnixTime) {
        let oldest = now + (.zero - Self.usedAge)
        links = links.filter { _, link in link.usedAt.map { $0 >= oldest } ?? (link.expiresAt > now) }
        unused = unused.filter { links[$0.value] != nil }
        let used = links.values.filter { $0.usedAt != nil }
        guard used.count > Self.usedLimit else { return }
        let newestFirst = used.sorted { ($0.usedAt ?? now) > ($1.usedAt ?? now) }
        for link in newestFirst.dropFirst(Self.usedLimit) { links[link.hash] = nil }
    }

    func find(_ hash: [UInt8], now: UnixTime) -> Finding {
        guard let link = links[hash] else { return .unknown }
        if link.usedAt != nil { return .used(link) }
        return link.expiresAt > now ? .unused(link) : .unknown
    }

    /// Whether one more link of a user in the domain exceeds a limit. A link that replaces an earlier link of the user
    /// exceeds no limit.
    func isFull(for name: ByteString, realm: ByteString, domain: ByteString, now: UnixTime) -> Bool {
        guard unused[User(name: name, realm: realm)] == nil else { return false }
        let open = unused.values.compactMap { links[$0] }.filter { $0.expiresAt > now }
        return open.count >= Self.limit || open.count(where: { $0.domain == domain }) >= Self.limitForDomain
    }

    /// The unused links and the remembered used links, newest first.
    func all(now: UnixTime) -> [StoredProvisionLink] {
        links.values.filter { $0.usedAt != nil || $0.expiresAt > now }
            .sorted { ($0.createdAt, $0.hash.lexicographicText) > ($1.createdAt, $1.hash.lexicographicText) }
    }
}

extension [UInt8] {
    /// A text by which two hashes can be sorted.
    fileprivate var lexicographicText: String { String(decoding: Hex.encode(self), as: UTF8.self) }
}
