import Addressing
import Bytes
import Registration
import SIPGrammar
import SIPTransactions
import Timekeeping

/// The request of a call, read again from the bytes that the call keeps.
extension ProxyEngine {
    /// The request of a call, which is read again from its bytes unless it came lately.
    func revive(_ call: Call) -> IncomingRequest? {
        guard let request = call.recent ?? reread(call.request) else { return nil }
        var incoming = IncomingRequest(request, on: call.source, isTrusted: call.isTrusted)
        if let server = call.server { incoming = incoming.matched(server) }
        incoming.sender = call.sender
        return incoming
    }

    func reread(_ request: KeptRequest) -> SIPRequest? { functions.reread(request.unpacked(functions.packing)) }
}
