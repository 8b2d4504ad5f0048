/// Which calls have their line at the level `notice`. All others have it at `info`.
package enum CallLogging: String, Hashable, Sendable, CaseIterable {
    /// Calls that failed, within a limit.
    case failed
    /// Each call.
    case all
    /// No call.
    case none
}
