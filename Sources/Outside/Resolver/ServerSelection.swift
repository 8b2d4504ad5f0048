import Addressing
import Bytes

/// Finds the servers for a query by RFC 3263 section 4, without I/O. From the DNS answers so far,
/// ``step(for:known:using:)`` computes either the next queries or the servers.
///
/// The resolver sends the next queries, and repeats the step with their answers, until the servers are known.
package struct ServerSelection {
    package enum Step: Hashable, Sendable {
        case ask([DNSQuestion])
        case found([ServerCandidate])
        case failed(ResolverError)
    }

    /// The maximum number of servers in a result, and of host names that one search looks up.
    package static let candidateLimit = 16

    private static let serviceLimit = 4

    private let query: ServerQuery
    private let known: [DNSQuestion: DNSAnswer]
    private var missing: [DNSQuestion] = []
    private var hosts: Set<String> = []
    private var hasFailure = false

    /// Computes the next queries or the servers from the answers so far.
    package static func step(
        for query: ServerQuery, known: [DNSQuestion: DNSAnswer], using random: inout some RandomNumberGenerator
    ) -> Step {
        var selection = ServerSelection(query: query, known: known)
        return selection.step(using: &random)
    }

    private init(query: ServerQuery, known: [DNSQuestion: DNSAnswer]) {
        self.query = query
        self.known = known
    }

    private mutating func step(using random: inout some RandomNumberGenerator) -> Step {
        guard let transport = wantedTransport() else { return .failed(.invalidQuery) }
        if let address = IPAddress(query.host) {
            let chosen = transport ?? .standard(isSecure: query.isSecure)
            return .found([ServerCandidate(chosen, Endpoint(address, query.port ?? chosen.standardPort))])
        }
        guard query.host.isDomainName else { return .failed(.invalidQuery) }
        let candidates = candidates(transport, using: &random)
        guard missing.isEmpty else { return .ask(missing) }
        guard !candidates.isEmpty else { return .failed(hasFailure ? .unavailable : .notFound) }
        return .found(Array(candidates.prefix(Self.candidateLimit)))
    }

    /// The transport of the query; `sips` changes TCP to TLS. The outer `nil` means that the query is invalid, because
    /// it asks for `sips` over a transport without TLS.
    private func wantedTransport() -> Transport?? {
        guard query.isSecure else { return .some(query.transport) }
        switch query.transport {
        case nil: return .some(nil)
        case .tcp, .tls: return .some(.tls)
        case .ws, .wss: return .some(.wss)
        case .udp: return nil
        }
    }

    private mutating func candidates(
        _ transport: Transport?, using random: inout some RandomNumberGenerator
    ) -> [ServerCandidate] {
        // If the URI has a port, neither NAPTR nor SRV is used (RFC 3263 sections 4.1 and 4.2).
        if let port = query.port {
            return addresses(of: query.host, transport ?? .standard(isSecure: query.isSecure), port)
        }
        let services = transport.map { service(for: $0) } ?? discoveredServices()
        guard missing.isEmpty else { return [] }
        var hasRecords = false
        var candidates: [ServerCandidate] = []
        for service in services {
            guard let records = records(of: service) else { continue }
            hasRecords = true
            for record in Self.ordered(records, using: &random) where !record.target.isEmpty {
                candidates += addresses(of: record.target, service.transport, record.port)
            }
        }
        // The default port is used only if the name servers report that the domain has no SRV records. After a failed
        // SRV query, SRV records may exist, and another service may use the default port.
        guard !hasRecords, !hasFailure, missing.isEmpty else { return candidates }
        let fallback = transport ?? .standard(isSecure: query.isSecure)
        return addresses(of: query.host, fallback, fallback.standardPort)
    }

    // MARK: Services

    private struct Service {
        let transport: Transport
        let name: String
    }

    private func service(for transport: Transport) -> [Service] {
        transport.servicePrefix.map { [Service(transport: transport, name: "\($0).\(query.host)")] } ?? []
    }

    /// The SIP services of the NAPTR records, in their order; without NAPTR records, the services of RFC 3263 section
    /// 4.1.
    private mutating func discoveredServices() -> [Service] {
        let question = DNSQuestion(.naptr, query.host)
        switch known[question] {
        case nil: missing.append(question)
        case .naptr(let records):
            let services =
                records
                .filter { $0.flags.lowercased() == "s" && !$0.replacement.isEmpty }
                .sorted { ($0.order, $0.preference) < ($1.order, $1.preference) }
                .compactMap { record in
                    Transport(service: record.service, isSecure: query.isSecure).map {
                        Service(transport: $0, name: record.replacement)
                    }
                }
            if !services.isEmpty { return Array(services.prefix(Self.serviceLimit)) }
        // Without NAPTR records, the search for servers continues. A failed NAPTR query is ignored, because many
        // resolvers do not support NAPTR. If the resolver is broken, the queries after the NAPTR query fail as well.
        case .srv, .addresses, .nothing, .failed: break
        }
        let guesses: [Transport] = query.isSecure ? [.tls] : [.udp, .tcp]
        return guesses.flatMap { service(for: $0) }
    }

    /// The SRV records of a service; `nil` if it has none, or if the answer is not known yet.
    private mutating func records(of service: Service) -> [SRVRecord]? {
        let question = DNSQuestion(.srv, service.name)
        switch known[question] {
        case nil: missing.append(question)
        case .srv(let records) where !records.isEmpty: return records
        case .failed: hasFailure = true
        case .srv, .naptr, .addresses, .nothing: break
        }
        return nil
    }

    private mutating func addresses(
        of host: String, _ transport: Transport, _ port: UInt16
    ) -> [ServerCandidate] {
        let question = DNSQuestion(.addresses, host)
        // The records of one domain must not cause an unlimited number of queries.
        guard hosts.count < Self.candidateLimit || hosts.contains(question.name) else { return [] }
        let isNew = hosts.insert(question.name).inserted
        switch known[question] {
        case nil: if isNew { missing.append(question) }
        case .addresses(let addresses):
            return addresses.map { ServerCandidate(transport, Endpoint($0, port)) }
        case .failed: hasFailure = true
        case .srv, .naptr, .nothing: break
        }
        return []
    }

    /// Sorts SRV records by RFC 2782: by priority, and records of equal priority by a weighted random choice.
    static func ordered(_ records: [SRVRecord], using random: inout some RandomNumberGenerator) -> [SRVRecord] {
        var ordered: [SRVRecord] = []
        let groups = Dictionary(grouping: records.prefix(candidateLimit), by: \.priority)
        for (_, group) in groups.sorted(by: { $0.key < $1.key }) {
            // Records with weight 0 come first, so that they are chosen only rarely (RFC 2782).
            var rest = group.sorted { $0.weight == 0 && $1.weight != 0 }
            while !rest.isEmpty {
                let sum = rest.reduce(0) { $0 + Int($1.weight) }
                var lot = Int.random(in: 0...sum, using: &random)
                let index = rest.firstIndex { record in
                    lot -= Int(record.weight)
                    return lot <= 0
                }
                ordered.append(rest.remove(at: index ?? 0))
            }
        }
        return ordered
    }
}

extension Transport {
    fileprivate static func standard(isSecure: Bool) -> Transport { isSecure ? .tls : .udp }

    fileprivate var standardPort: UInt16 {
        switch self {
        case .udp, .tcp: 5060
        case .tls: 5061
        case .ws: 80
        case .wss: 443
        }
    }

    /// The prefix of SRV names for the transport (RFC 3263 section 4.1); `nil` for WebSocket, which has none.
    fileprivate var servicePrefix: String? {
        switch self {
        case .udp: "_sip._udp"
        case .tcp: "_sip._tcp"
        case .tls: "_sips._tcp"
        case .ws, .wss: nil
        }
    }

    /// The transport that a NAPTR record's service field names; `nil` if the daemon does not support it. If `isSecure`
    /// is true, a service without TLS also gives `nil`.
    fileprivate init?(service: String, isSecure: Bool) {
        switch service.lowercased() {
        case "sips+d2t": self = .tls
        case "sip+d2u" where !isSecure: self = .udp
        case "sip+d2t" where !isSecure: self = .tcp
        default: return nil
        }
    }
}

extension String {
    /// Whether the text can be a domain name: letters, digits, hyphens, underscores and dots, within the length limits
    /// of DNS.
    fileprivate var isDomainName: Bool {
        guard (1...253).contains(utf8.count), utf8.first != UInt8(ascii: ".") else { return false }
        var label = 0
        for byte in utf8 {
            switch byte {
            case UInt8(ascii: "."):
                guard label > 0 else { return false }
                label = 0
            default:
                label += 1
                guard byte.isNameByte, label <= 63 else { return false }
            }
        }
        return true
    }
}
