/// The format of the caller in pushes (reading A14).
package enum CallerIDFormat: String, CaseIterable, Sendable {
    /// The format of ECSS-10: the URI in the push of a call, the user part in a list of missed calls.
    case ecss10
    /// The URI in the push of a call and in a list of missed calls.
    case uri
    /// The user part in the push of a call and in a list of missed calls.
    case user
}
