package import Addressing

/// The parts of a SIP URI that determine its servers by RFC 3263.
package struct ServerQuery: Hashable, Sendable {
    /// A domain name, or an address, with or without brackets for IPv6.
    package let host: String
    package let port: UInt16?
    package let transport: Transport?
    /// Whether the URI is `sips`, so that only TLS is allowed.
    package let isSecure: Bool

    package init(host: String, port: UInt16? = nil, transport: Transport? = nil, isSecure: Bool = false) {
        self.host = host
        self.port = port
        self.transport = transport
        self.isSecure = isSecure
    }
}

/// One address and transport of a server; the resolver returns candidates in the order in which to try them.
package struct ServerCandidate: Hashable, Sendable {
    package let transport: Transport
    package let endpoint: Endpoint

    package init(_ transport: Transport, _ endpoint: Endpoint) {
        self.transport = transport
        self.endpoint = endpoint
    }
}

/// Why the resolver found no SIP server.
package enum ResolverError: Error, Hashable, Sendable {
    /// The host is not a valid name, or a `sips` URI asks for UDP.
    case invalidQuery
    /// The name servers report that the name or its records do not exist.
    case notFound
    /// The name servers gave no answer or a malformed one, but may answer later.
    case unavailable
    /// Too many other searches are active.
    case overloaded
    /// The resolver was closed.
    case closed
}

extension ResolverError: CustomStringConvertible {
    /// A text for operators, without the host.
    package var description: String {
        switch self {
        case .invalidQuery: "it is not a host name"
        case .notFound: "DNS has no such name, or no address for it"
        case .unavailable: "the name servers do not answer"
        case .overloaded: "too many questions to DNS wait"
        case .closed: "the resolver is closed"
        }
    }
}
