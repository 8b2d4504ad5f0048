/// Whether pushes go to a provider. An operator decides it, and it survives restarts.
package enum ProviderState: String, Hashable, Sendable, CaseIterable {
    case on
    /// Nothing is sent to it. Its contacts stay push contacts.
    case paused
    /// It is as if it were not configured (R8c, R9).
    case off
}
