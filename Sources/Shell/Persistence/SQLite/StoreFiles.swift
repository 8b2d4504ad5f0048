import Storage

/// The identities of the files at the store's path, read without opening the files. A changed identity shows that
/// somebody has removed or replaced the file.
struct StoreFiles: Equatable {
    let database: FileIdentity?
    let log: FileIdentity?

    init(_ path: String) {
        database = FileIdentity(path: path)
        log = FileIdentity(path: path + "-wal")
    }
}

extension Connection {
    /// Checks whether the disk has room: writes the given number of bytes and deletes them.
    func takeRoom(_ size: Int) throws(SQLError) {
        let write = try statement("INSERT OR REPLACE INTO meta VALUES ('probe', ?)")
        write.bind(1, text: [UInt8](repeating: UInt8(ascii: " "), count: size).span)
        try transaction { () throws(SQLError) in try write.run() }
        try transaction { () throws(SQLError) in try statement("DELETE FROM meta WHERE key = 'probe'").run() }
    }
}
