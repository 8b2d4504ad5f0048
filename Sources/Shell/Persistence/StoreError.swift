/// Why the store cannot be used, as a sentence for the operator that names the store.
package struct StoreError: Error, Hashable, Sendable, CustomStringConvertible {
    package let description: String
    /// Whether another process uses the store; a command can send its request to that process instead.
    package let isInUse: Bool

    package init(_ sentence: String, isInUse: Bool = false) {
        description = sentence
        self.isInUse = isInUse
    }
}

extension StoreError {
    init(_ place: String, _ failure: any Error, isInUse: Bool = false) {
        self.init("store \(place): \(failure)", isInUse: isInUse)
    }
}

/// Why a backup of the store failed. A failed backup leaves an existing backup file unchanged.
package enum BackupFailure: Error, Hashable, Sendable {
    /// The backup was refused, because an earlier backup is in progress.
    case busy
    /// The store cannot be read at present.
    case unreadable
    /// The backup was refused, with a sentence for the operator who ordered the backup.
    case refused(String)
}
