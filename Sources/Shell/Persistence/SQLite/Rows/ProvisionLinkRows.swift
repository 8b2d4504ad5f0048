import Bytes
import Registration
import Storage
import Timekeeping

/// The SQL statements for links with which phones set up accounts.
extension Connection {
    /// Writes a new link. The user's earlier link becomes invalid if it is unused.
    func write(_ link: StoredProvisionLink) throws(SQLError) {
        try removeProvisionLinks(of: link.name, realm: link.realm)
        try run(
            "INSERT OR REPLACE INTO provision_link VALUES (?,?,?,?,?,?,?,?,?,?)",
            ByteString(Hex.encode(link.hash)), link.name, link.realm, link.domain, link.createdAt, link.expiresAt,
            link.setsPassword, link.creator, link.usedAt ?? UnixTime(milliseconds: 0), link.usedFrom)
    }

    /// Removes the unused links of a user.
    func removeProvisionLinks(of name: ByteString, realm: ByteString) throws(SQLError) {
        try run("DELETE FROM provision_link WHERE realm = ? AND name = ? AND used_at = 0", realm, name)
    }

    /// Notes that a phone uses the link, and writes the user's new password in the same transaction.
    ///
    /// - Returns: whether the link was there, unused and not expired.
    func apply(_ use: ProvisionLinkUse) throws(SQLError) -> Bool {
        try run(
            "UPDATE provision_link SET used_at = ?, used_from = ? WHERE hash = ? AND used_at = 0 AND expires_at > ?",
            use.date, use.source, ByteString(Hex.encode(use.hash)), use.date)
        guard changes > 0 else { return false }
        if let user = use.user { try write(user) }
        return true
    }

    /// Removes links that expired unused, links that were used before the given time, and the oldest used links if there
    /// are more than `keeping`.
    func pruneProvisionLinks(at date: UnixTime, usedBefore: UnixTime, keeping: Int) throws(SQLError) {
        try run("DELETE FROM provision_link WHERE used_at = 0 AND expires_at <= ?", date)
        try run("DELETE FROM provision_link WHERE used_at > 0 AND used_at < ?", usedBefore)
        try run(
            """
            DELETE FROM provision_link WHERE used_at > 0 AND hash NOT IN (
                SELECT hash FROM provision_link WHERE used_at > 0 ORDER BY used_at DESC LIMIT ?)
            """, keeping)
    }

    func provisionLinks() throws(SQLError) -> [StoredProvisionLink] {
        try values(of: try statement("SELECT * FROM provision_link")) { $0.storedProvisionLink }
    }
}
