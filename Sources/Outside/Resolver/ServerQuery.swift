package import Addressing

/// The parts of a SIP URI from which RFC 3263 finds a server.
package struct ServerQuery: Hashable, Sendable {
    /// A domain name or an address. An IPv6 address may be in brackets.
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

/// One address and transport of a server. The resolver returns candidates in the order in which they should be tried.
package struct ServerCandidate: Hashable, Sendable {
    package let transport: Transport
    package let endpoint: Endpoint

    package init(_ transport: Transport, _ endpoint: Endpoint) {
        self.transport = transport
        self.endpoint = endpoint
    }
}

/// Why the resolver found no candidate.
package enum ResolverError: Error, Hashable, Sendable {
    /// The host is not a valid name, or a `sips` URI asks for UDP.
    case invalidQuery
    /// The name servers report that the name or the records do not exist.
    case notFound
    /// The name servers gave no answer, or a malformed answer. A later query for the same name may succeed.
    case unavailable
    /// The limit of simultaneous searches is reached.
    case overloaded
    /// The resolver was closed.
    case closed
}

extension ResolverError: CustomStringConvertible {
    /// Words for operators. They do not name the host.
    package var description: String {
        switch self {
        case .invalidQuery: "it is no host name"
        case .notFound: "DNS has no such name, or no address for it"
        case .unavailable: "the name servers do not answer"
        case .overloaded: "too many questions to DNS wait"
        case .closed: "the resolver is closed"
        }
    }
}
