/// The reason why the store cannot be used, as a sentence for the operator that names the store.
package struct StoreError: Error, Hashable, Sendable, CustomStringConvertible {
    package let description: String
    /// Whether another process uses the store, to which a command can then send its request.
    package let isInUse: Bool

    package init(_ sentence: String, isInUse: Bool = false) {
        description = sentence
        self.isInUse = isInUse
    }
}

/// Why a backup failed. If copying fails, a file that existed before stays unchanged.
package enum BackupFailure: Error, Hashable, Sendable {
    /// Another backup is in progress.
    case busy
    /// The store cannot be read at present.
    case unreadable
    /// A sentence for the operator who ordered the backup.
    case refused(String)
}
