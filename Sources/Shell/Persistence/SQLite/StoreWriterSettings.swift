/// How the writer gathers changes into transactions. The values are no settings for operators, because the defaults
/// suit a laptop and a server.
package struct StoreWriterSettings: Hashable, Sendable {
    /// The maximum number of changes in one transaction, which may be exceeded because the changes of one ticket stay
    /// together.
    package var batchLimit = 2000
    /// The maximum number of changes that may wait, above which ``StoreWriter/commit(_:for:)`` refuses further changes.
    package var queueLimit = 50_000
    /// How long changes wait for other changes if no caller waits for them, and the number of waiting changes that ends
    /// the wait early.
    package var gatherInterval: Duration = .milliseconds(200)
    package var gatherLimit = 250
    /// The time between the starts of two commits under load: callers waited for at least ``groupSizeLimit`` entries of
    /// the previous commit. The precision of the loop's clock can extend the interval to four milliseconds. If as many
    /// entries wait as the last commits had, a commit begins immediately.
    package var commitInterval: Duration = .microseconds(1500)
    package var groupSizeLimit = 4
    /// The maximum time that lazy rows wait.
    package var lazyInterval: Duration = .seconds(5)
    /// The maximum number of lazy rows that wait, above which ``StoreWriter/refresh(_:)`` refuses further rows.
    package var lazyLimit = 50_000
    /// The number of pages in the write-ahead log from which a checkpoint copies the log into the database. The store
    /// accepts writes during a checkpoint.
    package var checkpointPages = 8192

    /// The time between a failure and the first probe of the disk, and between two probes.
    package var probeInterval: Duration = .seconds(1)
    /// The number of bytes that a probe must write before changes are written again.
    package var probeSize = 65_536
    /// The interval at which the daemon checks whether somebody removed or replaced the store's files.
    package var fileCheckInterval: Duration = .seconds(2)
    /// The maximum number of failed changes that are kept although no caller waits for them. If more failed changes
    /// wait, the oldest of them are dropped.
    package var deferralLimit = 25_000

    package init() {}
}
