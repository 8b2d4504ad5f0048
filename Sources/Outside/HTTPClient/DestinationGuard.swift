package import Addressing
import Reactor

/// Decides whether the daemon may connect to the addresses of a host that somebody else has named.
///
/// The code that sends the request must connect to an address that the guard has returned, and must not look the name up
/// again, because the answer to the second look-up can be another address (DNS rebinding).
package struct DestinationGuard: Sendable {
    /// The addresses that the guard allows, apart from the daemon's own listeners.
    package enum Scope: Hashable, Sendable {
        /// Public addresses, and the private addresses that the operator allows.
        case publicOr([AddressBlock])
        /// Public addresses of other machines.
        case publicElsewhere
        /// All addresses, because the operator has named the host.
        case all
    }

    /// The reason why the daemon does not connect to a host.
    package enum Refusal: Error, Hashable, Sendable, CustomStringConvertible {
        case noAddress
        case notPublic(IPAddress)
        case own(IPAddress)

        package var description: String {
            switch self {
            case .noAddress: "DNS has no such name, or no address for it"
            case .notPublic(let address): "the host has the address \(address), which is not public"
            case .own(let address): "the host has the address \(address), which belongs to this machine"
            }
        }
    }

    private let scope: Scope

    package init(_ scope: Scope) { self.scope = scope }

    /// Checks all addresses of a host. If one address is not allowed, the whole host is refused.
    ///
    /// - Parameters:
    ///   - addresses: all addresses of the host.
    ///   - port: the port of the connection.
    ///   - own: the addresses of the daemon's own listeners.
    /// - Returns: the addresses, of which there is at least one.
    /// - Throws: the reason why the daemon must not connect to the host.
    package func check(
        _ addresses: [IPAddress], port: UInt16, own: [Endpoint]
    ) throws(Refusal) -> [IPAddress] {
        guard !addresses.isEmpty else { throw .noAddress }
        for address in addresses {
            guard isAllowed(address) else { throw .notPublic(address) }
            guard !isOwn(address, port, own) else { throw .own(address) }
        }
        return addresses
    }

    private func isAllowed(_ address: IPAddress) -> Bool {
        switch scope {
        case .publicOr(let allowed): address.isPublic || allowed.contains { $0.contains(address) }
        case .publicElsewhere: address.isPublic
        // A connection to the unspecified address would reach this machine.
        case .all: !address.isUnspecified
        }
    }

    private func isOwn(_ address: IPAddress, _ port: UInt16, _ own: [Endpoint]) -> Bool {
        if scope == .publicElsewhere, HostAddress.all.contains(address) { return true }
        return own.contains { endpoint in
            endpoint.port == port
                && (endpoint.address == address
                    || endpoint.address.isUnspecified && (address.isLoopback || HostAddress.all.contains(address)))
        }
    }
}
