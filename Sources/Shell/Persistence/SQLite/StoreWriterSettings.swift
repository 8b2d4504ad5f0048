/// How changes are gathered into transactions. Operators cannot set these values: the defaults suit a laptop and a
/// server.
package struct StoreWriterSettings: Hashable, Sendable {
    /// The maximum number of changes in one transaction. The changes of one ticket stay together.
    package var batchLimit = 2000
    /// How many changes may wait. Above this number ``StoreWriter/commit(_:for:)`` refuses changes.
    package var queueLimit = 50_000
    /// How long changes without a ticket wait for other changes, and how many may wait.
    package var gatherInterval: Duration = .milliseconds(200)
    package var gatherLimit = 250
    /// The time between the starts of two commits under load. Load means that at least ``groupSizeLimit`` entries waited
    /// for the previous commit. The loop's clock can extend the time to four milliseconds. When as many entries wait as
    /// the last commits had, a commit begins immediately.
    package var commitInterval: Duration = .microseconds(1500)
    package var groupSizeLimit = 4
    /// How long lazy rows may wait.
    package var lazyInterval: Duration = .seconds(5)
    /// How many lazy rows may wait. Above this number ``StoreWriter/refresh(_:)`` refuses rows.
    package var lazyLimit = 50_000
    /// The number of pages in the write-ahead log at which it is copied into the database. Writing continues meanwhile.
    package var checkpointPages = 8192

    /// The time from a failure to the first probe of the disk, and between probes.
    package var probeInterval: Duration = .seconds(1)
    /// How many bytes a probe must be able to write before changes are written again.
    package var probeSize = 65_536
    /// How often the daemon checks whether somebody removed or replaced the files.
    package var fileCheckInterval: Duration = .seconds(2)
    /// How many failed changes without a ticket are kept. Above this number the oldest changes are dropped.
    package var deferralLimit = 25_000

    package init() {}
}
