package import Addressing

/// A DNS query: a name, and the kind of the wanted records.
package struct DNSQuestion: Hashable, Sendable {
    package enum Kind: Hashable, Sendable {
        case naptr
        case srv
        /// The addresses of a name: records of type A and AAAA.
        case addresses
    }

    package let kind: Kind
    /// The name in lower case, without the final dot.
    package let name: String

    package init(_ kind: Kind, _ name: String) {
        self.kind = kind
        let name = name.lowercased()
        self.name = name.hasSuffix(".") ? String(name.dropLast()) : name
    }
}

/// An SRV record, which names a server of a service (RFC 2782).
package struct SRVRecord: Hashable, Sendable {
    package let priority: UInt16
    package let weight: UInt16
    package let port: UInt16
    /// The server's host name; empty if the domain does not offer the service.
    package let target: String

    package init(priority: UInt16, weight: UInt16, port: UInt16, target: String) {
        self.priority = priority
        self.weight = weight
        self.port = port
        self.target = target
    }
}

/// A NAPTR record, which names a service of a domain (RFC 3403). The regular expression is left out, because RFC 3263
/// does not use it.
package struct NAPTRRecord: Hashable, Sendable {
    package let order: UInt16
    package let preference: UInt16
    package let flags: String
    package let service: String
    package let replacement: String

    package init(order: UInt16, preference: UInt16, flags: String, service: String, replacement: String) {
        self.order = order
        self.preference = preference
        self.flags = flags
        self.service = service
        self.replacement = replacement
    }
}

/// The answer to a DNS query.
package enum DNSAnswer: Hashable, Sendable {
    case naptr([NAPTRRecord])
    case srv([SRVRecord])
    /// The addresses, in the order in which to try them (RFC 6724).
    case addresses([IPAddress])
    /// The name does not exist, or has no record of the requested type.
    case nothing
    /// The name servers gave no usable answer.
    case failed
}
