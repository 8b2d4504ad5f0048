/// One end of a copy: a database that a copy reads or writes, table by table.
protocol CopyEnd {
    /// Checks that this program knows all columns of the store, so that a copy is complete.
    func checkColumns() throws
    /// Returns the next rows after the key, in the order of the key; `nil` is the key before the first row.
    func rows(of table: CopiedTable, after key: [CopiedValue]?, limit: Int) throws -> [[CopiedValue]]
    /// Returns the key of the last row; `nil` if the table is empty.
    func lastKey(of table: CopiedTable) throws -> [CopiedValue]?
    /// Writes rows and notes in one transaction.
    func insert(_ rows: [[CopiedValue]], into table: CopiedTable) throws
    func copyNote(_ key: String) throws -> String?
    /// Writes a note, or removes it if the value is `nil`.
    func setCopyNote(_ key: String, _ value: String?) throws
    /// Makes new rows get numbers above the copied numbers.
    func finishNumbers() throws
}
