/// Why the store cannot be used: a sentence for the operator. The sentence names the store.
package struct StoreError: Error, Hashable, Sendable, CustomStringConvertible {
    package let description: String
    /// Whether another process uses the store. A command can then ask that process.
    package let isInUse: Bool

    package init(_ sentence: String, isInUse: Bool = false) {
        description = sentence
        self.isInUse = isInUse
    }
}

/// Why a backup failed. A file that existed before is unchanged.
package enum BackupFailure: Error, Hashable, Sendable {
    /// Another backup is in progress.
    case busy
    /// The store cannot be read now.
    case unreadable
    /// A sentence for the caller.
    case refused(String)
}
