/// The calls whose log lines have the level `notice`; the log lines of all other calls have the level `info`.
package enum CallLogging: String, Hashable, Sendable, CaseIterable {
    /// The log lines of failed calls have the level `notice`, up to a rate limit.
    case failed
    /// The log lines of all calls have the level `notice`.
    case all
    /// The log lines of all calls have the level `info`.
    case none
}
