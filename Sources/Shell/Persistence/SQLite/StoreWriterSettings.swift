/// How changes are gathered into transactions. Not for operators: the defaults suit a laptop and a server.
package struct StoreWriterSettings: Hashable, Sendable {
    /// The maximum number of changes in one transaction. The changes of one ticket stay together.
    package var batchLimit = 2000
    /// How many changes may wait. Beyond it ``StoreWriter/commit(_:for:)`` refuses.
    package var queueLimit = 50_000
    /// How long changes without a ticket gather before they are written, and how many may gather.
    package var gatherInterval: Duration = .milliseconds(200)
    package var gatherLimit = 250
    /// The time between the starts of commits under load, that is while at least ``groupSizeLimit`` entries waited for
    /// the previous one. The loop's clock extends it to up to four milliseconds. A commit begins immediately when as
    /// many entries wait as recent commits had.
    package var commitInterval: Duration = .microseconds(1500)
    package var groupSizeLimit = 4
    /// How long lazy rows may wait.
    package var lazyInterval: Duration = .seconds(5)
    /// How many lazy rows may wait. Beyond it ``StoreWriter/refresh(_:)`` refuses.
    package var lazyLimit = 50_000
    /// The number of pages after which the write-ahead log is copied into the file while writing continues.
    package var checkpointPages = 8192

    /// After a failure, the time before the first probe and between probes.
    package var probeInterval: Duration = .seconds(1)
    /// How many bytes must find room after a failure before changes are written again.
    package var probeSize = 65_536
    /// How often to check that the files still have their names.
    package var fileCheckInterval: Duration = .seconds(2)
    /// How many failed changes without a ticket are kept. Beyond it the oldest are dropped.
    package var deferralLimit = 25_000

    package init() {}
}
