/// How changes are gathered into transactions. Not for operators: the defaults suit a laptop and a server.
package struct StoreWriterSettings: Hashable, Sendable {
    /// Changes in one transaction; what one ticket brings stays together.
    package var batchLimit = 2000
    /// Changes that may wait; beyond it ``StoreWriter/commit(_:for:)`` refuses.
    package var queueLimit = 50_000
    /// How long changes that nobody waits for gather before they are written.
    package var gatherInterval: Duration = .milliseconds(20)
    /// How long lazy rows may wait.
    package var lazyInterval: Duration = .seconds(5)
    /// Lazy rows that may wait; beyond it ``StoreWriter/refresh(_:)`` refuses.
    package var lazyLimit = 50_000
    /// Pages of the write-ahead log after which it is copied into the file, beside the writing.
    package var checkpointPages = 8192

    /// How long after a failure it is tried again whether the store can be written, and how often.
    package var probeInterval: Duration = .seconds(1)
    /// Bytes that must find room until changes are expected to.
    package var probeSize = 65_536
    /// How often it is made sure that the files still have their names.
    package var fileCheckInterval: Duration = .seconds(2)
    /// Changes that nobody waits for and that could not be written; beyond it the oldest are given up.
    package var deferralLimit = 25_000

    package init() {}
}
