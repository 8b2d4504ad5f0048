/// Findings about the realm: whether the store's password hashes were made for the realm of the daemon's challenges.
package enum RealmFindings {
    private static let area = "realm"

    /// - Parameters:
    ///   - users: the users of the store, each as `user@realm`.
    ///   - isWhole: whether `users` has all users of the store.
    ///   - domains: the setting `domains`.
    ///   - realm: the setting `digest.realm`; `nil` if each domain is its own realm.
    /// - Returns: the findings.
    package static func findings(users: [String], isWhole: Bool, domains: [String], realm: String?) -> [Finding] {
        let realms = realm.map { [$0] } ?? domains.map { $0.lowercased() }
        let foreign = users.filter { user in
            !realms.contains(user.lastIndex(of: "@").map { String(user[user.index(after: $0)...]) } ?? "")
        }
        let names = realms.joined(separator: ", ")
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
                cure: "Correct domains or digest.realm, or set the passwords of these users again: sippushd user passwd"
            )
        ]
    }
}
