package import Addressing
import SIPTransactions

/// Calls of an earlier run whose callers lost their connections when that run ended. When a caller connects again, the
/// responses go to the new connection.
package struct AwayCallers {
    /// Calls from trusted peers, by the peer's address.
    private var peers: [IPAddress: [ProxiedRequest]] = [:]

    package init() {}

    package var isEmpty: Bool { peers.isEmpty }

    /// The call was made by a trusted peer.
    package mutating func add(_ call: ProxiedRequest) { peers[call.source.remote.address, default: []].append(call) }

    /// Whether the trusted peer that made the call has not connected again yet.
    package func isAway(_ call: ProxiedRequest) -> Bool {
        peers[call.source.remote.address]?.contains { $0 === call } == true
    }

    package mutating func take(of peer: IPAddress) -> [ProxiedRequest] {
        peers.isEmpty ? [] : peers.removeValue(forKey: peer) ?? []
    }
}
