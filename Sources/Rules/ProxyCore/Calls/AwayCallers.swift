import Addressing
import SIPTransactions

/// Calls of an earlier run whose callers lost their connections when that run ended. When a caller connects again, the
/// responses go to the new connection.
struct AwayCallers {
    /// Calls from trusted peers, by the peer's address.
    private var peers: [IPAddress: [ProxiedRequest]] = [:]
    /// Calls from phones of our users.
    private var phones: [DeviceID: [ProxiedRequest]] = [:]

    var isEmpty: Bool { peers.isEmpty && phones.isEmpty }

    mutating func add(_ call: ProxiedRequest, of phone: DeviceID?) {
        if let phone {
            phones[phone, default: []].append(call)
        } else if call.isTrusted {
            peers[call.source.remote.address, default: []].append(call)
        }
    }

    /// Whether the trusted peer that made the call has not connected again yet.
    func isAway(_ call: ProxiedRequest) -> Bool {
        peers[call.source.remote.address]?.contains { $0 === call } == true
    }

    mutating func take(of peer: IPAddress) -> [ProxiedRequest] {
        peers.isEmpty ? [] : peers.removeValue(forKey: peer) ?? []
    }

    mutating func take(of phone: DeviceID) -> [ProxiedRequest] {
        phones.isEmpty ? [] : phones.removeValue(forKey: phone) ?? []
    }
}
