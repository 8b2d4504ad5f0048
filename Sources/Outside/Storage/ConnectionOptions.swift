/// The options for opening a database.
package struct ConnectionOptions: Hashable, Sendable {
    package enum Access: Hashable, Sendable {
        case readOnly
        case readWrite
        /// Opens the database for reading and writing. If the file is missing, a file is created that only its owner
        /// can read.
        case readWriteCreate
    }

    package var access = Access.readWriteCreate
    /// How long the connection waits for a database lock of another connection.
    package var busyTimeout: Duration = .seconds(5)
    /// The size in bytes of a page in a new file.
    package var pageSize = 4096
    /// The size of the page cache in KiB.
    package var cacheSize = 16_384
    /// The number of pages in the write-ahead log after which a commit copies them into the database file. If the
    /// number is 0, only ``Connection/checkpoint(_:)`` copies pages.
    package var autoCheckpoint = 1000
    /// The size in bytes to which the write-ahead log is truncated after its pages were copied.
    package var journalSizeLimit = 64 << 20

    package init() {}
}
