package import PushDelivery

/// A missed call as a row of the store, with the called user.
package struct StoredBucketEntry: Sendable {
    package let aor: AddressOfRecord
    package let entry: BucketEntry

    package init(aor: AddressOfRecord, entry: BucketEntry) {
        self.aor = aor
        self.entry = entry
    }
}

/// A change of one user's missed calls for the store.
package struct StoredBucketChange: Sendable {
    package let aor: AddressOfRecord
    package let change: BucketChange

    package init(aor: AddressOfRecord, change: BucketChange) {
        self.aor = aor
        self.change = change
    }
}
