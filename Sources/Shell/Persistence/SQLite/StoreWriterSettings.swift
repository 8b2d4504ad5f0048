/// How changes are gathered into transactions. Not for operators: the defaults suit a laptop and a server.
package struct StoreWriterSettings: Hashable, Sendable {
    /// How many changes one transaction has. What belongs to one ticket stays together.
    package var batchLimit = 2000
    /// How many changes may wait. Beyond it ``StoreWriter/commit(_:for:)`` refuses.
    package var queueLimit = 50_000
    /// How long changes that nobody waits for gather before they are written, and how many of them at most.
    package var gatherInterval: Duration = .milliseconds(200)
    package var gatherLimit = 250
    /// How far apart commits begin under load, that is while at least as many as ``companyLimit`` have waited for the one
    /// before; the loop's clock makes it up to four milliseconds. When as many wait as a commit had lately, it begins at once.
    package var commitInterval: Duration = .microseconds(1500)
    package var companyLimit = 4
    /// How long lazy rows may wait.
    package var lazyInterval: Duration = .seconds(5)
    /// How many lazy rows may wait. Beyond it ``StoreWriter/refresh(_:)`` refuses.
    package var lazyLimit = 50_000
    /// After how many pages the write-ahead log is copied into the file while writing goes on.
    package var checkpointPages = 8192

    /// How long after a failure it is tried again whether the store can be written, and how often.
    package var probeInterval: Duration = .seconds(1)
    /// How many bytes must find room after a failure before changes are written again.
    package var probeSize = 65_536
    /// How often to check that the files still have their names.
    package var fileCheckInterval: Duration = .seconds(2)
    /// How many changes are kept that nobody waits for and that could not be written. Beyond it the oldest are given
    /// up.
    package var deferralLimit = 25_000

    package init() {}
}
