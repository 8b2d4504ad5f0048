/// The calls whose log lines have the level `notice`. The lines of all other calls have the level `info`.
package enum CallLogging: String, Hashable, Sendable, CaseIterable {
    /// The lines of failed calls have the level `notice`, within a limit.
    case failed
    /// The lines of all calls have the level `notice`.
    case all
    /// The line of no call has the level `notice`.
    case none
}
