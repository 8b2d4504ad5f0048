package import Addressing

/// Reports once in each run that push tokens come from the internet where others can read them: over UDP, TCP or
/// WebSocket without TLS. RFC 8599 section 13 wants TLS there.
package struct UnprotectedTokens: Sendable {
    package private(set) var isTold = false

    /// A push contact was accepted. Contacts from trusted peers do not count, because the transport between a phone
    /// and an edge is unknown here.
    ///
    /// - Returns: whether the contact is the first of this run that came unprotected.
    package mutating func contactAccepted(on flow: Flow, isTrusted: Bool) -> Bool {
        guard !isTold, !flow.transport.isSecure, !isTrusted, !flow.remote.address.isLoopback,
            flow.remote.address.isPublic
        else { return false }
        isTold = true
        return true
    }
}
