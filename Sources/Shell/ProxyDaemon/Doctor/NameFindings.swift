package import Addressing

/// A host name in the settings, and its addresses in DNS.
package struct NameFact: Hashable, Sendable {
    package enum Purpose: Hashable, Sendable {
        /// The name is a domain of the settings, by which phones look up their server.
        case domain
        /// The daemon writes the name into messages as its own address.
        case advertised
        case upstream
    }

    package let name: String
    package let purpose: Purpose
    /// The addresses of the name in DNS; empty if the name has no address.
    package let addresses: [IPAddress]
    /// Whether no DNS name server answered.
    package let hasFailed: Bool

    package init(name: String, purpose: Purpose, addresses: [IPAddress], hasFailed: Bool = false) {
        self.name = name
        self.purpose = purpose
        self.addresses = addresses
        self.hasFailed = hasFailed
    }
}

/// Findings about the host names in the settings and their addresses.
package enum NameFindings {
    private static let area = "dns"

    /// - Parameters:
    ///   - facts: the facts about each name.
    ///   - own: the addresses of this machine.
    /// - Returns: the findings.
    package static func findings(_ facts: [NameFact], own: [IPAddress]) -> [Finding] { facts.map { finding($0, own) } }

    private static func finding(_ fact: NameFact, _ own: [IPAddress]) -> Finding {
        guard !fact.addresses.isEmpty else { return unknown(fact) }
        let list = fact.addresses.map { "\($0)" }.joined(separator: ", ")
        let isOurs = fact.addresses.contains { own.contains($0) }
        guard fact.purpose != .upstream, !isOurs else { return Finding(area, .ok, "\(fact.name) is \(list)") }
        return Finding(
            area, .note, "\(fact.name) is \(list), which is no address of this machine",
            cure: "There is nothing to do if a NAT or a load balancer leads from this address to this machine.")
    }

    private static func unknown(_ fact: NameFact) -> Finding {
        if fact.hasFailed {
            return Finding(
                area, .wrong, "\(fact.name): the name servers do not answer",
                cure: "Check the name servers in /etc/resolv.conf, and UDP and TCP port 53 in the firewall.")
        }
        return switch fact.purpose {
        case .domain:
            Finding(
                area, .note, "\(fact.name) has no address and no SRV record",
                cure:
                    "Phones that look up the domain in DNS need an address or SRV record. Other phones need this daemon's address as their outbound proxy."
            )
        case .advertised:
            Finding(
                area, .wrong, "\(fact.name) has no address, and advertise tells this name to all peers",
                cure: "Add the name to DNS, or correct advertise.")
        case .upstream:
            Finding(
                area, .wrong, "\(fact.name) has no address, so phones cannot call through the upstream",
                cure: "Add the name to DNS, or correct upstream.")
        }
    }
}
