import Addressing
import SIPTransactions

/// Calls of an earlier run whose callers' connections ended with it, until the callers are back: they get their responses by
/// the connections that they have made since.
struct AwayCallers {
    /// Of trusted peers, by their addresses.
    private var peers: [IPAddress: [Call]] = [:]
    /// Of our users' phones.
    private var phones: [DeviceID: [Call]] = [:]

    var isEmpty: Bool { peers.isEmpty && phones.isEmpty }

    mutating func add(_ call: Call, of phone: DeviceID?) {
        if let phone {
            phones[phone, default: []].append(call)
        } else if call.isTrusted {
            peers[call.source.remote.address, default: []].append(call)
        }
    }

    /// Whether the trusted peer that made the call is not back yet.
    func isAway(_ call: Call) -> Bool {
        peers[call.source.remote.address]?.contains { $0 === call } == true
    }

    mutating func take(of peer: IPAddress) -> [Call] { peers.isEmpty ? [] : peers.removeValue(forKey: peer) ?? [] }

    mutating func take(of phone: DeviceID) -> [Call] { phones.isEmpty ? [] : phones.removeValue(forKey: phone) ?? [] }
}
