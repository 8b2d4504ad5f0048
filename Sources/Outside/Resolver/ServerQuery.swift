package import Addressing

/// Whose address is wanted: what RFC 3263 takes from a SIP URI.
package struct ServerQuery: Hashable, Sendable {
    /// A domain name or numeric address, the latter with or without brackets.
    package let host: String
    package let port: UInt16?
    package let transport: Transport?
    /// Whether the URI is `sips`, so that only TLS will do.
    package let isSecure: Bool

    package init(host: String, port: UInt16? = nil, transport: Transport? = nil, isSecure: Bool = false) {
        self.host = host
        self.port = port
        self.transport = transport
        self.isSecure = isSecure
    }
}

/// One way to reach a server; tried in the order given.
package struct ServerCandidate: Hashable, Sendable {
    package let transport: Transport
    package let endpoint: Endpoint

    package init(_ transport: Transport, _ endpoint: Endpoint) {
        self.transport = transport
        self.endpoint = endpoint
    }
}

/// Why there is no candidate.
package enum ResolverError: Error, Hashable, Sendable {
    /// The host is not a name, or a `sips` URI asks for UDP.
    case invalidQuery
    /// The name servers say that there is nothing.
    case notFound
    /// The name servers gave no answer or a broken one. Later there may be one.
    case unavailable
    /// As many queries as allowed are under way.
    case overloaded
    /// The resolver was closed.
    case closed
}
