/// How changes are gathered into transactions. Operators cannot set these values: the defaults suit a laptop and a
/// server.
package struct StoreWriterSettings: Hashable, Sendable {
    /// The maximum number of changes in one transaction. The changes of one ticket stay together.
    package var batchLimit = 2000
    /// The maximum number of changes that may wait. If this many changes wait, ``StoreWriter/commit(_:for:)`` refuses
    /// further changes.
    package var queueLimit = 50_000
    /// How long changes without a ticket wait for other changes, and the number of changes that may wait.
    package var gatherInterval: Duration = .milliseconds(200)
    package var gatherLimit = 250
    /// The time between the starts of two commits under load. The store is under load if at least ``groupSizeLimit``
    /// entries waited for the previous commit. The precision of the loop's clock can extend this time to four
    /// milliseconds. If as many entries wait as the last commits had, a commit begins immediately.
    package var commitInterval: Duration = .microseconds(1500)
    package var groupSizeLimit = 4
    /// The maximum time that lazy rows wait.
    package var lazyInterval: Duration = .seconds(5)
    /// The maximum number of lazy rows that wait. If this many rows wait, ``StoreWriter/refresh(_:)`` refuses further
    /// rows.
    package var lazyLimit = 50_000
    /// The number of pages in the write-ahead log at which the log is copied into the database. The store accepts
    /// writes during this copy.
    package var checkpointPages = 8192

    /// The time from a failure to the first probe of the disk, and between probes.
    package var probeInterval: Duration = .seconds(1)
    /// The number of bytes that a probe must write before changes are written again.
    package var probeSize = 65_536
    /// How often the daemon checks whether somebody removed or replaced the files.
    package var fileCheckInterval: Duration = .seconds(2)
    /// The number of failed changes without a ticket that are kept. If more changes are deferred, the oldest are
    /// dropped.
    package var deferralLimit = 25_000

    package init() {}
}
