import Addressing
import Bytes
import Registration
import SIPGrammar
import SIPTransactions
import Timekeeping

/// The parsed request of a call, made again from its bytes.
extension ProxyEngine {
    /// The call's request. Unless the call is among the latest, its bytes are parsed again.
    func revive(_ call: ProxiedRequest) -> IncomingRequest? {
        guard let request = call.recent ?? reread(call.request) else { return nil }
        var incoming = IncomingRequest(request, on: call.source, isTrusted: call.isTrusted)
        if let server = call.server { incoming = incoming.matched(server) }
        incoming.sender = call.sender
        return incoming
    }

    func reread(_ request: KeptRequest) -> SIPRequest? { functions.reread(request.unpacked(functions.packing)) }
}
