/// The format in which pushes name the caller (reading A14).
package enum CallerIDFormat: String, CaseIterable, Sendable {
    /// The URI in the push about a call, and the user part in a list of missed calls, as in ECSS-10.
    case ecss10
    /// The URI, in the push about a call and in a list of missed calls.
    case uri
    /// The user part, in the push about a call and in a list of missed calls.
    case user
}
