package import Addressing

/// The parts of a SIP URI that determine its servers by RFC 3263.
package struct ServerQuery: Hashable, Sendable {
    /// The host of the URI: a domain name or an address. The host may be an IPv6 address in brackets.
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

/// One address and transport of a server. The resolver returns the candidates in the order in which they should be
/// tried.
package struct ServerCandidate: Hashable, Sendable {
    package let transport: Transport
    package let endpoint: Endpoint

    package init(_ transport: Transport, _ endpoint: Endpoint) {
        self.transport = transport
        self.endpoint = endpoint
    }
}

/// The reason why the resolver found no SIP server.
package enum ResolverError: Error, Hashable, Sendable {
    /// The host is not a valid name, or a `sips` URI asks for UDP.
    case invalidQuery
    /// According to the name servers, the name or its records do not exist.
    case notFound
    /// The DNS name servers gave no answer, or a malformed answer. After a failure of the name servers, a later query
    /// for the same name may succeed.
    case unavailable
    /// The resolver refused the search, because too many other searches are active.
    case overloaded
    /// The resolver was closed before the search ended.
    case closed
}

extension ResolverError: CustomStringConvertible {
    /// A description of the error for operators, without the host.
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
