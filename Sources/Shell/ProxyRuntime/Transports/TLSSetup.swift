import Addressing
package import Crypto

/// The TLS configuration: the daemon's client contexts, and numbers for the names of servers.
///
/// A reload replaces the TLS configuration of new connections; existing connections keep their configuration.
///
/// - The class is `@unchecked Sendable`, because only the shard's loop uses it.
package final class TLSSetup: @unchecked Sendable {
    /// The context for connections that the daemon opens; `nil` if the settings have no TLS.
    private var client: TLSContext?
    /// The context for connections to other nodes of the cluster; `nil` without a cluster.
    private var nodes: TLSContext?
    /// The number of the nodes' listener; `nil` without a cluster.
    private var nodeListener: UInt16?
    /// The names of servers that have numbers; the first name has the number 1.
    private var names: [String] = []
    private var numbers: [String: ServerNumber] = [:]

    /// The maximum number of server names; it is never reached, because only the settings and trusted peers name
    /// servers.
    private static let limit = 4096

    package init(client: TLSContext? = nil) { self.client = client }

    package func changed(client: TLSContext) { self.client = client }

    package func changed(nodes: TLSContext?) { self.nodes = nodes }

    /// Connects to other nodes on all flows of the given listener.
    package func usesForNodes(_ listener: UInt16?) { nodeListener = listener }

    /// Whether the flow leads to or from another node of the cluster.
    func isForNodes(_ flow: Flow) -> Bool {
        guard let nodeListener else { return false }
        return flow.listener == nodeListener && flow.transport == .tls
    }

    /// The number that represents a host name in flows; `nil` if the maximum number of names is reached.
    func number(of host: String) -> ServerNumber? {
        let name = host.lowercased()
        if let number = numbers[name] { return number }
        guard names.count < Self.limit else { return nil }
        names.append(name)
        let number = ServerNumber(UInt16(names.count))
        numbers[name] = number
        return number
    }

    private func name(of flow: Flow) -> String? {
        let number = Int(flow.server.rawValue)
        guard number > 0 else { return flow.remote.address.description }
        return number <= names.count ? names[number - 1] : nil
    }

    /// Starts the client side of a TLS connection for a flow; `nil` if TLS is not configured or the server's name is
    /// unknown. The certificate of another node must cover the address of the connection.
    func session(for flow: Flow) -> TLSSession? {
        if isForNodes(flow) { return try? nodes?.makeClientSession(host: flow.remote.address.description) }
        guard let client, let name = name(of: flow) else { return nil }
        return try? client.makeClientSession(host: name)
    }
}
