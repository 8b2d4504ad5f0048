package import Addressing
import SIPTransactions

/// Calls of the daemon's earlier run whose callers lost their connections when that run ended. When a caller of the
/// daemon's earlier run connects again, the responses to its calls are sent on the new connection.
package struct AwayCallers: ~Copyable {
    /// The earlier run's calls from trusted peers, by the peer's address.
    private var peers: [IPAddress: [ProxiedRequest]] = [:]

    package init() {}

    package var isEmpty: Bool { peers.isEmpty }

    /// Adds a call that a trusted peer made in the daemon's earlier run.
    package mutating func add(_ call: ProxiedRequest) { peers[call.source.remote.address, default: []].append(call) }

    /// Whether the trusted peer that made the call has not connected again since the restart.
    package func isAway(_ call: ProxiedRequest) -> Bool {
        peers[call.source.remote.address]?.contains { $0 === call } == true
    }

    package mutating func take(of peer: IPAddress) -> [ProxiedRequest] {
        peers.isEmpty ? [] : peers.removeValue(forKey: peer) ?? []
    }
}
