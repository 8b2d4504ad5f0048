import Storage

/// The files that the store's name leads to now, to notice when somebody takes them away. They are asked for, never opened.
struct StoreFiles: Equatable {
    let database: FileIdentity?
    let log: FileIdentity?

    init(_ path: String) {
        database = FileIdentity(path: path)
        log = FileIdentity(path: path + "-wal")
    }
}

extension Connection {
    /// Writes that many bytes to the disk, and gives them up again.
    func takeRoom(_ size: Int) throws(SQLError) {
        let write = try statement("INSERT OR REPLACE INTO meta VALUES ('probe', ?)")
        write.bind(1, text: [UInt8](repeating: UInt8(ascii: " "), count: size).span)
        try transaction { () throws(SQLError) in try write.run() }
        try transaction { () throws(SQLError) in try statement("DELETE FROM meta WHERE key = 'probe'").run() }
    }
}
