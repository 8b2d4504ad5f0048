package import Addressing
package import Calling
package import Registration
package import Timekeeping

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

/// One page of the search for contacts whose node has ended.
package struct ContactPage: Sendable {
    /// The wanted contacts of the page.
    package let rows: [StoredBinding]
    /// The last contact of the page; `nil` if the page has the end of all contacts.
    package let last: DeviceID?
    /// The latest expiry of all contacts of the page.
    package let latest: UnixTime

    package init(rows: [StoredBinding], last: DeviceID?, latest: UnixTime) {
        (self.rows, self.last, self.latest) = (rows, last, latest)
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
