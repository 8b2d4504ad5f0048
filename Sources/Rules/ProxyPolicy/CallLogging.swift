/// The calls whose log lines have the level `notice`; the lines of all other calls have the level `info`.
package enum CallLogging: String, Hashable, Sendable, CaseIterable {
    /// The lines of failed calls have the level `notice`, up to a limit.
    case failed
    /// The lines of all calls have the level `notice`.
    case all
    /// The lines of all calls have the level `info`.
    case none
}
