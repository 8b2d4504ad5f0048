/// Whether the daemon sends pushes to a provider. An operator sets the state of a push provider, and the state survives
/// restarts.
package enum ProviderState: String, Hashable, Sendable, CaseIterable {
    case on
    /// The daemon sends no pushes to the provider. Contacts of a paused push provider are still contacts with push.
    case paused
    /// The daemon treats the provider as if it were not in the settings (R8c, R9).
    case off
}
