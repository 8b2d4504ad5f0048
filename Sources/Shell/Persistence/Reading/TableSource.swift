/// Opens connections for reading, and for the few writes of the daemon's start.
///
/// Only the thread of one ``StoreReader`` uses a ``TableSource``.
protocol TableSource: AnyObject, Sendable {
    /// The file or server of the database, as errors name it.
    var place: String { get }
    /// The open connection for reading, or a new one.
    func tables() throws -> any StoreTables
    /// A new connection that can write.
    func writableTables() throws -> any StoreTables
    /// Closes the connection for reading, for example after an error.
    func close()
}
