/// The options for opening a database.
package struct ConnectionOptions: Hashable, Sendable {
    package enum Access: Hashable, Sendable {
        case readOnly
        case readWrite
        /// Creates the file if it does not exist, readable only by its owner.
        case readWriteCreate
    }

    package var access = Access.readWriteCreate
    /// How long to wait for a lock of another process.
    package var busyTimeout: Duration = .seconds(5)
    /// In bytes. Only a new file uses it.
    package var pageSize = 4096
    /// The page cache in KiB.
    package var cacheSize = 16_384
    /// The number of pages in the write-ahead log after which a commit copies them into the file; 0 leaves that to
    /// ``Connection/checkpoint(_:)``.
    package var autoCheckpoint = 1000
    /// The size in bytes to which the write-ahead log's file is truncated after copying.
    package var journalSizeLimit = 64 << 20

    package init() {}
}
