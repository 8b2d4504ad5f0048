import Addressing
package import Crypto

/// What TLS is spoken with: the certificates that listeners show, and what servers must show that we connect to.
///
/// Its parts change when the settings are read again; connections keep what they were made with.
///
/// - `@unchecked Sendable` because it is used on the shard's loop alone.
package final class TLSSetup: @unchecked Sendable {
    /// What connections are made with; `nil` where the settings have no TLS.
    private var client: TLSContext?
    /// The names of servers that were looked up; the number of the first is 1.
    private var names: [String] = []
    private var numbers: [String: ServerNumber] = [:]

    /// Only the settings and trusted peers name servers, so that this many are never needed.
    private static let limit = 4096

    package init(client: TLSContext? = nil) { self.client = client }

    package func changed(client: TLSContext) { self.client = client }

    /// The number that stands for a host name in flows; `nil` when there are too many.
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

    /// The connecting side of a connection for a flow; `nil` when TLS is not set up, or nobody knows the server's name.
    func session(for flow: Flow) -> TLSSession? {
        guard let client, let name = name(of: flow) else { return nil }
        return try? client.makeClientSession(host: name)
    }
}
