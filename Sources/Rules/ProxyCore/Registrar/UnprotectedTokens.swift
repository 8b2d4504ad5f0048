import Addressing

/// Tells once a run that push tokens come where others can read them: over UDP, TCP or WebSocket without TLS, from the internet.
/// RFC 8599 section 13 wants TLS there.
struct UnprotectedTokens: Sendable {
    private(set) var isTold = false

    /// A push contact was accepted.
    ///
    /// A trusted peer is passed over: how phones reach an edge is not seen here.
    /// - Returns: whether it is the first of this run that came unprotected.
    mutating func contactAccepted(on flow: Flow, isTrusted: Bool) -> Bool {
        guard !isTold, !flow.transport.isSecure, !isTrusted, !flow.remote.address.isLoopback,
            flow.remote.address.isPublic
        else { return false }
        isTold = true
        return true
    }
}
