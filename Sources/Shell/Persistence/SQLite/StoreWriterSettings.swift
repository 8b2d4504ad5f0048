/// How the writer gathers changes into transactions. Operators cannot change the settings of the writer, because the
/// defaults suit a laptop and a server.
package struct StoreWriterSettings: Hashable, Sendable {
    /// The number of changes at which a transaction is full. A transaction can exceed the number of changes, because
    /// the changes of one ticket stay together.
    package var batchLimit = 2000
    /// The maximum number of waiting changes. If more changes than the maximum would wait,
    /// ``StoreWriter/commit(_:for:)`` refuses them.
    package var queueLimit = 50_000
    /// How long changes wait for other changes if no requester waits for their result, and the number of waiting
    /// changes that ends the wait early.
    package var gatherInterval: Duration = .milliseconds(200)
    package var gatherLimit = 250
    /// The minimum time between the starts of two commits, if requesters waited for at least ``groupSizeLimit`` entries
    /// of the previous commit. The precision of the loop's clock can extend the commit interval to four milliseconds.
    /// If as many entries wait as the last commits had, a commit begins immediately.
    package var commitInterval: Duration = .microseconds(1500)
    package var groupSizeLimit = 4
    /// The maximum time for which lazy rows (rows for whose result nobody waits) wait.
    package var lazyInterval: Duration = .seconds(5)
    /// The maximum number of waiting lazy rows, for whose result nobody waits. If more lazy rows (rows for whose result
    /// nobody waits) than the maximum would wait, ``StoreWriter/refresh(_:)`` refuses them.
    package var lazyLimit = 50_000
    /// When the write-ahead log has 8,192 pages, a checkpoint copies the log into the database. The store accepts
    /// writes during a checkpoint.
    package var checkpointPages = 8192

    /// The time between a failure of the disk and the first test of the disk, and between two tests.
    package var probeInterval: Duration = .seconds(1)
    /// After a full disk, the number of bytes that a test must write before the store writes changes again.
    package var probeSize = 65_536
    /// The interval at which the daemon checks whether somebody removed or replaced the store's files.
    package var fileCheckInterval: Duration = .seconds(2)
    /// The maximum number of failed changes that are kept although no requester waits for their result. If more failed
    /// changes wait, the oldest changes are dropped.
    package var deferralLimit = 25_000

    package init() {}
}
