/// The format in which pushes name the caller (reading A14).
package enum CallerIDFormat: String, CaseIterable, Sendable {
    /// Pushes about a call contain the caller's URI, and lists of missed calls contain the user part, as in ECSS-10.
    case ecss10
    /// Pushes about a call and lists of missed calls contain the caller's URI.
    case uri
    /// Pushes about a call and lists of missed calls contain the user part of the caller's URI.
    case user
}
