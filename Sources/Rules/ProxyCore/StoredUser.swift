package import Calling
package import Registration

/// The rows of the store about one user, read for one request.
package struct StoredUser: Sendable {
    package let aor: AddressOfRecord
    /// The user's bindings, oldest first.
    package let bindings: [StoredBinding]
    package let bucketEntries: [StoredBucketEntry]
    package let rules: StoredUserRules?

    package init(
        aor: AddressOfRecord, bindings: [StoredBinding] = [], bucketEntries: [StoredBucketEntry] = [],
        rules: StoredUserRules? = nil
    ) {
        self.aor = aor
        self.bindings = bindings
        self.bucketEntries = bucketEntries
        self.rules = rules
    }
}

/// The answer of the store to one question about users.
package struct StoredUsers: Sendable {
    package let users: [StoredUser]
    /// The accounts that the question names and the store has.
    package let accounts: [DigestUser]

    package init(users: [StoredUser] = [], accounts: [DigestUser] = []) {
        self.users = users
        self.accounts = accounts
    }
}
