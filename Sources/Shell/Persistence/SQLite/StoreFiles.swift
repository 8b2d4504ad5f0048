import Storage

/// The identities of the files that the store's path leads to now, to notice when somebody takes them away. They are
/// asked for, and no file is opened for it.
struct StoreFiles: Equatable {
    let database: FileIdentity?
    let log: FileIdentity?

    init(_ path: String) {
        database = FileIdentity(path: path)
        log = FileIdentity(path: path + "-wal")
    }
}

extension Connection {
    /// Finds out whether the disk has room: writes that many bytes, and removes them again.
    func takeRoom(_ size: Int) throws(SQLError) {
        let write = try statement("INSERT OR REPLACE INTO meta VALUES ('probe', ?)")
        write.bind(1, text: [UInt8](repeating: UInt8(ascii: " "), count: size).span)
        try transaction { () throws(SQLError) in try write.run() }
        try transaction { () throws(SQLError) in try statement("DELETE FROM meta WHERE key = 'probe'").run() }
    }
}
