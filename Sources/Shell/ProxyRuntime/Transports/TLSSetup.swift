import Addressing
package import Crypto

/// The TLS configuration: the daemon's client context, and numbers for the names of servers.
///
/// A reload replaces the TLS configuration of new connections; existing connections keep their configuration.
///
/// - The class is `@unchecked Sendable`, because only the shard's loop uses it.
package final class TLSSetup: @unchecked Sendable {
    /// The context for connections that the daemon opens; `nil` if the settings have no TLS.
    private var client: TLSContext?
    /// The names of servers that have numbers; the first name has the number 1.
    private var names: [String] = []
    private var numbers: [String: ServerNumber] = [:]

    /// The maximum number of server names; it is never reached, because only the settings and trusted peers name
    /// servers.
    private static let limit = 4096

    package init(client: TLSContext? = nil) { self.client = client }

    package func changed(client: TLSContext) { self.client = client }

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
    /// unknown.
    func session(for flow: Flow) -> TLSSession? {
        guard let client, let name = name(of: flow) else { return nil }
        return try? client.makeClientSession(host: name)
    }
}
