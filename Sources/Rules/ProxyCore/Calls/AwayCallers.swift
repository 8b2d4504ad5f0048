import Addressing
import SIPTransactions

/// Calls of an earlier run whose callers' connections ended with it, until the callers are back: they get their responses by
/// the connections that they have made since.
struct AwayCallers {
    /// Of trusted peers, by their addresses.
    private var peers: [IPAddress: [Call]] = [:]
    /// Of our users' phones.
    private var phones: [DeviceID: [Call]] = [:]
    /// Of peers whose names are being looked up, to call them back.
    private var lookups: [ResolutionTicket: Call] = [:]

    var isEmpty: Bool { peers.isEmpty && phones.isEmpty }

    mutating func add(_ call: Call, of phone: DeviceID?) {
        if let phone {
            phones[phone, default: []].append(call)
        } else if call.isTrusted {
            peers[call.source.remote.address, default: []].append(call)
        }
    }

    mutating func lookUp(_ call: Call, _ ticket: ResolutionTicket) { lookups[ticket] = call }

    /// The call whose caller was looked up with this ticket; `nil` for another ticket, and when the caller is back.
    mutating func takeLookup(_ ticket: ResolutionTicket) -> Call? {
        guard let call = lookups.removeValue(forKey: ticket),
            peers[call.source.remote.address]?.contains(where: { $0 === call }) == true
        else { return nil }
        return call
    }

    mutating func take(of peer: IPAddress) -> [Call] { peers.isEmpty ? [] : peers.removeValue(forKey: peer) ?? [] }

    mutating func take(of phone: DeviceID) -> [Call] { phones.isEmpty ? [] : phones.removeValue(forKey: phone) ?? [] }
}
