/// Whether the daemon sends pushes to a provider. An operator sets the state of a provider, which the daemon keeps over
/// restarts.
package enum ProviderState: String, Hashable, Sendable, CaseIterable {
    case on
    /// The daemon sends no pushes to the provider. Contacts with a paused provider stay push contacts.
    case paused
    /// The daemon treats the provider as if it were not in the settings (R8c, R9).
    case off
}
