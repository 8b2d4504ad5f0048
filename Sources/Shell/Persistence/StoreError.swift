/// Why the store cannot be used: a sentence for the operator, which names it.
package struct StoreError: Error, Hashable, Sendable, CustomStringConvertible {
    package let description: String
    /// Another process has it, which may answer in its place.
    package let isInUse: Bool

    package init(_ sentence: String, isInUse: Bool = false) {
        description = sentence
        self.isInUse = isInUse
    }
}

/// Why there is no backup. A file that was there before is as it was.
package enum BackupFailure: Error, Hashable, Sendable {
    /// Another backup is being written.
    case busy
    /// The store cannot be read now.
    case unreadable
    /// A sentence for whoever asked.
    case refused(String)
}
