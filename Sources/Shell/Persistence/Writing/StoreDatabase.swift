import Timekeeping

/// The database behind a ``StoreSession``: one transaction at a time, and tests after a failure.
///
/// Only the session's thread uses a ``StoreDatabase``.
protocol StoreDatabase: AnyObject, Sendable {
    /// The file or server of the database, as the log names it.
    var place: String { get }
    /// The interval between two calls of ``look()``.
    var lookInterval: Duration { get }

    /// The time between a failure and the first test, and between two tests.
    var probeInterval: Duration { get }
    /// Whether changes fail at once, because the database does not answer. Any thread can ask.
    var isAway: Bool { get }

    /// Writes all changes of the entries, and then the batch's lazy rows, in one transaction.
    ///
    /// - Returns: the tickets of the entries that had to change a missing row.
    func write(_ waiting: [StoreIntake.Entry], _ batch: StoreIntake.Batch) throws(StoreFailure) -> Set<StoreTicket>
    /// Tests whether the database can write, and changes no data.
    func probe() throws(StoreFailure)
    /// Checks the database regularly, even while no changes are written.
    func look() throws(StoreFailure)
    /// Does the work that is due after a commit, and that no requester waits for.
    func committed()
    func close()
}

/// Why the database has written nothing.
struct StoreFailure: Error {
    /// The reason, as a text for operators.
    let reason: String
    /// Whether the machine or the server caused the failure, and not the changes.
    let isOfSystem: Bool
}
