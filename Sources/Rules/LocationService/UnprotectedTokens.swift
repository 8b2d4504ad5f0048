package import Addressing

/// Remembers whether this run of the daemon has reported a push token that came over the internet without TLS, although
/// RFC 8599 section 13 requires TLS.
package struct UnprotectedTokens: Sendable {
    package private(set) var isTold = false

    /// Notes an accepted push contact, and returns whether it is the daemon's first contact since its start whose token
    /// came without TLS.
    ///
    /// A contact from a trusted peer does not count, because the daemon does not know how the phone reached the edge.
    package mutating func contactAccepted(on flow: Flow, isTrusted: Bool) -> Bool {
        guard !isTold, !flow.transport.isSecure, !isTrusted, !flow.remote.address.isLoopback,
            flow.remote.address.isPublic
        else { return false }
        isTold = true
        return true
    }
}
