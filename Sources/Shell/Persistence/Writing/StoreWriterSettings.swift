/// How the writer gathers changes into transactions. The values are no settings for operators, because the defaults fit
/// a laptop and a server.
package struct StoreWriterSettings: Hashable, Sendable {
    /// The number of changes at which a transaction is full. A transaction can exceed its limit of changes, because the
    /// changes of one ticket stay together.
    package var batchLimit = 2000
    /// The maximum number of waiting changes, above which ``StoreWriter/commit(_:for:)`` refuses changes.
    package var queueLimit = 50_000
    /// How long changes without a waiting requester wait for other changes, and the number of waiting changes that ends
    /// the wait early.
    package var gatherInterval: Duration = .milliseconds(200)
    package var gatherLimit = 250
    /// The minimum time between the starts of two commits, if requesters waited for at least ``groupSizeLimit`` results
    /// of the previous commit. The precision of the loop's clock can extend the interval between commits to four
    /// milliseconds. If as many entries wait as the last commits had, a commit begins immediately.
    package var commitInterval: Duration = .microseconds(1500)
    package var groupSizeLimit = 4
    /// The maximum waiting time of lazy rows.
    package var lazyInterval: Duration = .seconds(5)
    /// The maximum number of waiting lazy rows, above which ``StoreWriter/refresh(_:)`` refuses rows.
    package var lazyLimit = 50_000
    /// When the write-ahead log has this number of pages, a checkpoint copies the log into the database. The store
    /// accepts writes during a checkpoint.
    package var checkpointPages = 8192

    /// The interval between tests of the disk after a failure of the disk; the first test also begins after this time.
    package var probeInterval: Duration = .seconds(1)
    /// The number of bytes that a test must write after a full disk before the store writes changes again.
    package var probeSize = 65_536
    /// The interval at which the daemon checks whether somebody removed or replaced the store's files.
    package var fileCheckInterval: Duration = .seconds(2)
    /// The maximum number of failed changes that are kept for a retry; above the maximum, the oldest changes are
    /// dropped.
    package var deferralLimit = 25_000

    package init() {}
}
