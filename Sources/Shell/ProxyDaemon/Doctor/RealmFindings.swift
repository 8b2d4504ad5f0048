import Bytes
package import Control
import Registration

/// Findings about the realm: whether the store's password hashes were made for the realm of the daemon's challenges.
package enum RealmFindings {
    private static let area = "realm"

    /// - Parameters:
    ///   - users: the users in the store, each as `user@realm`.
    ///   - isWhole: whether `users` has all users of the store.
    ///   - domains: the setting `domains`.
    ///   - realms: the realms of the domains.
    /// - Returns: the findings.
    package static func findings(users: [String], isWhole: Bool, domains: [String], realms: UserRealms) -> [Finding] {
        var accounts: [String] = []
        for account in domains.map({ realms.realm(of: $0).account.string }) where !accounts.contains(account) {
            accounts.append(account)
        }
        let foreign = users.filter { user in
            !accounts.contains(user.lastIndex(of: "@").map { String(user[user.index(after: $0)...]) } ?? "")
        }
        let names = accounts.joined(separator: ", ")
        guard let first = foreign.first else {
            guard !users.isEmpty else {
                return [
                    Finding(area, .note, "there is no user, so no phone can register", cure: "sippushd user add NAME")
                ]
            }
            let count = isWhole ? "all \(users.count)" : "the first \(users.count)"
            return [Finding(area, .ok, "the passwords of \(count) users are for the realm \(names)")]
        }
        return [
            Finding(
                area, .wrong,
                "the passwords of \(foreign.count) users are for another realm than \(names), such as that of \(first)",
                cure:
                    "Correct domains, digest.realm or tenants, or set the passwords of these users again: sippushd user passwd"
            )
        ]
    }
}
