package import Addressing

/// Whether the log has reported a push token that came over the internet without TLS. RFC 8599 section 13 requires TLS.
package struct UnprotectedTokens: Sendable {
    package private(set) var isTold = false

    /// Notes an accepted contact with push token; returns true if the token came without TLS, for the first time since
    /// start-up.
    ///
    /// A contact from a trusted peer does not count, because the daemon does not know how the phone reached the edge
    /// proxy.
    package mutating func contactAccepted(on flow: Flow, isTrusted: Bool) -> Bool {
        guard !isTold, !flow.transport.isSecure, !isTrusted, !flow.remote.address.isLoopback,
            flow.remote.address.isPublic
        else { return false }
        isTold = true
        return true
    }
}
