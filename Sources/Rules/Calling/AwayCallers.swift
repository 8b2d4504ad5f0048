package import Addressing
import SIPTransactions

/// Calls that began before the daemon restarted, and whose callers have not connected again. When a caller connects
/// again, the responses to its calls are sent on the new connection.
package struct AwayCallers: ~Copyable {
    /// The calls from trusted peers before the restart, by the peer's address.
    private var peers: [IPAddress: [ProxiedRequest]] = [:]

    package init() {}

    package var isEmpty: Bool { peers.isEmpty }

    /// Adds a call of a trusted peer from before the restart.
    package mutating func add(_ call: ProxiedRequest) { peers[call.source.remote.address, default: []].append(call) }

    /// Whether the trusted peer that made the call has not connected again since the restart.
    package func isAway(_ call: ProxiedRequest) -> Bool {
        peers[call.source.remote.address]?.contains { $0 === call } == true
    }

    package mutating func take(of peer: IPAddress) -> [ProxiedRequest] {
        peers.isEmpty ? [] : peers.removeValue(forKey: peer) ?? []
    }
}
