import Bytes
import Crypto

/// Copies a store into another database, table by table. A copy that was interrupted continues after the last row.
///
/// Nobody else may use either store during the copy: the copy holds both locks.
package struct StoreCopy {
    /// The result of a copy for one table.
    package struct Report: Hashable, Sendable {
        package let table: String
        package let rows: Int
        /// The SHA-256 of all values, which both stores have.
        package let digest: String
    }

    private let source: OpenEnd
    private let target: OpenEnd

    /// A database with its lock.
    fileprivate struct OpenEnd {
        let place: String
        let end: any CopyEnd
        let store: CommandStore
    }

    /// The key of the note that marks a target whose copy is not complete.
    static let mark = "copy"
    /// The number of rows in one transaction.
    private static let rowsInTurn = 1000

    /// Opens both stores.
    ///
    /// - Throws: an error if a store cannot be opened, or if the target has data that no copy has written.
    package init(from source: StorePlace, to target: StorePlace) throws(StoreError) {
        guard !source.isMissing else { throw StoreError("the store \(source.name) does not exist") }
        self.source = try OpenEnd(source)
        self.target = try OpenEnd(target)
        try asked(self.source) { try $0.checkColumns() }
        try asked(self.target) { end in
            if let earlier = try end.copyNote(Self.mark) {
                guard earlier == source.name else {
                    throw StoreError("\(target.name) has an incomplete copy of \(earlier); start with an empty target")
                }
                return
            }
            for table in CopiedTable.all where table.sqlite != "meta" {
                guard try end.lastKey(of: table) == nil else {
                    throw StoreError("\(target.name) is not empty: it has rows in the table \(table.sqlite)")
                }
            }
            try end.setCopyNote(Self.mark, source.name)
        }
    }

    /// Copies all rows, and compares both stores.
    ///
    /// - Parameter progress: receives the name of each table when its rows are copied.
    /// - Returns: one report for each table.
    /// - Throws: an error if a store fails, or if both stores differ.
    package func run(_ progress: (Report) -> Void) throws(StoreError) -> [Report] {
        var reports: [Report] = []
        for table in CopiedTable.all {
            try copy(table)
            let (original, copy) = (try report(on: table, in: source), try report(on: table, in: target))
            guard original == copy else {
                throw StoreError(
                    "the table \(table.sqlite) differs: \(original.rows) rows in \(source.place), \(copy.rows) rows in \(target.place). If the source changed after an interrupted copy, start with an empty target"
                )
            }
            progress(original)
            reports.append(original)
        }
        try asked(target) { end in
            try end.finishNumbers()
            try end.setCopyNote(Self.mark, nil)
        }
        return reports
    }

    private func copy(_ table: CopiedTable) throws(StoreError) {
        // The notes are few, and the target has notes of its own, so all notes are compared.
        if table.sqlite == "meta" { return try copyNotes(table) }
        var last = try asked(target) { try $0.lastKey(of: table) }
        while true {
            let rows = try asked(source) { [last] in try $0.rows(of: table, after: last, limit: Self.rowsInTurn) }
            guard let newest = rows.last else { return }
            try asked(target) { try $0.insert(rows, into: table) }
            last = table.key.map { newest[$0] }
        }
    }

    private func copyNotes(_ table: CopiedTable) throws(StoreError) {
        let notes = try asked(source) { try $0.rows(of: table, after: nil, limit: .max) }
        for note in notes {
            guard note.count == 2, case (.bytes(let key), .bytes(let value)) = (note[0], note[1]) else { continue }
            let name = String(decoding: key, as: UTF8.self)
            guard !CopiedTable.ownNotes.contains(name) else { continue }
            try asked(target) { try $0.setCopyNote(name, String(decoding: value, as: UTF8.self)) }
        }
    }

    /// Counts and hashes the rows of a table, in the order of the key.
    private func report(on table: CopiedTable, in end: OpenEnd) throws(StoreError) -> Report {
        var count = 0
        var digest = [UInt8](repeating: 0, count: 32)
        var last: [CopiedValue]?
        while true {
            let page = try asked(end) { [last] in try $0.rows(of: table, after: last, limit: Self.rowsInTurn) }
            guard let newest = page.last else { break }
            last = table.key.map { newest[$0] }
            for row in page where table.sqlite != "meta" || !Self.isOwnNote(row) {
                var bytes = digest
                for value in row { value.append(to: &bytes) }
                digest = HashAlgorithm.sha256.digest(of: bytes)
                count += 1
            }
        }
        return Report(table: table.sqlite, rows: count, digest: String(decoding: Hex.encode(digest), as: UTF8.self))
    }

    private static func isOwnNote(_ row: [CopiedValue]) -> Bool {
        guard case .bytes(let key)? = row.first else { return false }
        return CopiedTable.ownNotes.contains(String(decoding: key, as: UTF8.self))
    }

    private func asked<Answer>(
        _ end: OpenEnd, _ body: (any CopyEnd) throws -> Answer
    ) throws(StoreError) -> Answer {
        do { return try body(end.end) } catch let error as StoreError { throw error } catch {
            throw StoreError(end.place, error)
        }
    }
}

extension StoreCopy.OpenEnd {
    init(_ place: StorePlace) throws(StoreError) {
        store = try place.opened()
        (self.place, end) = (place.name, store.copyEnd)
    }
}

extension StorePlace {
    /// Reads a place such as `sqlite:/var/lib/sippushd/sippushd.db` or `postgresql:host=db dbname=sippushd`; the place can
    /// also be a URI that begins with `postgresql://`.
    package init(copied text: String) throws(StoreError) {
        if text.hasPrefix("sqlite:") {
            self = .file(String(text.dropFirst("sqlite:".count)))
        } else if text.hasPrefix("postgresql://") || text.hasPrefix("postgres://") {
            self = .postgreSQL(try PostgreSQLPlace(text), beside: "")
        } else if text.hasPrefix("postgresql:") {
            self = .postgreSQL(try PostgreSQLPlace(String(text.dropFirst("postgresql:".count))), beside: "")
        } else {
            throw StoreError("expected sqlite:PATH or postgresql:CONNECTION, found \(text)")
        }
    }
}
