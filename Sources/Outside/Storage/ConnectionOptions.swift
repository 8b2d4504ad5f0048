/// How a database is opened.
package struct ConnectionOptions: Hashable, Sendable {
    package enum Access: Hashable, Sendable {
        case readOnly
        case readWrite
        /// Makes the file when there is none, readable by its owner alone.
        case readWriteCreate
    }

    package var access = Access.readWriteCreate
    /// How long a lock of another process is waited for.
    package var busyTimeout: Duration = .seconds(5)
    /// Bytes; only a new file takes it.
    package var pageSize = 4096
    /// KiB of pages kept in memory.
    package var cacheSize = 16_384
    /// Pages in the write-ahead log after which a commit copies them into the file; 0 leaves that to
    /// ``Connection/checkpoint(_:)``.
    package var autoCheckpoint = 1000
    /// Bytes that the write-ahead log's file keeps after it was copied.
    package var journalSizeLimit = 64 << 20

    package init() {}
}
