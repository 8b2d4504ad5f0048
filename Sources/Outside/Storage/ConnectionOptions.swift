/// The options for opening a database.
package struct ConnectionOptions: Hashable, Sendable {
    package enum Access: Hashable, Sendable {
        case readOnly
        case readWrite
        /// Creates the file if it does not exist. Only its owner may read it.
        case readWriteCreate
    }

    package var access = Access.readWriteCreate
    /// How long to wait for a lock of another process.
    package var busyTimeout: Duration = .seconds(5)
    /// The size of a page in bytes. It is used only for a new file.
    package var pageSize = 4096
    /// The size of the page cache in KiB.
    package var cacheSize = 16_384
    /// The number of pages in the write-ahead log after which a commit copies them into the file. With 0, only
    /// ``Connection/checkpoint(_:)`` copies them.
    package var autoCheckpoint = 1000
    /// The size in bytes to which the file of the write-ahead log is truncated after copying.
    package var journalSizeLimit = 64 << 20

    package init() {}
}
