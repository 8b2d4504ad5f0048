package import Addressing

/// Remembers whether this run has reported push tokens that came over the internet without TLS, so that others could
/// read them. RFC 8599 section 13 requires TLS for push tokens.
package struct UnprotectedTokens: Sendable {
    package private(set) var isTold = false

    /// Notes an accepted push contact. A contact from a trusted peer is not counted, because the transport between the
    /// phone and the edge is unknown here.
    ///
    /// - Returns: whether it is the first contact of this run whose token came without TLS.
    package mutating func contactAccepted(on flow: Flow, isTrusted: Bool) -> Bool {
        guard !isTold, !flow.transport.isSecure, !isTrusted, !flow.remote.address.isLoopback,
            flow.remote.address.isPublic
        else { return false }
        isTold = true
        return true
    }
}
