/// Whether the daemon sends pushes to a provider. An operator decides the state, which survives restarts.
package enum ProviderState: String, Hashable, Sendable, CaseIterable {
    case on
    /// The daemon sends no pushes to the provider. The provider's contacts stay push contacts.
    case paused
    /// The daemon behaves as if the settings had no such provider (R8c, R9).
    case off
}
