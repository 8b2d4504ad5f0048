import Addressing
import SIPGrammar
import SIPTransactions

/// A request on its way through the engine, with what answering it needs.
struct IncomingRequest {
    let request: SIPRequest
    let flow: Flow
    /// `;received=...;rport=...` for the topmost Via (RFC 3581), in each response and in the forwarded request.
    let viaAddition: ByteString
    let responseFlow: Flow
    private(set) var server: ServerTransactionID?

    init(_ request: SIPRequest, on flow: Flow) {
        self.request = request
        self.flow = flow
        viaAddition = request.viaAddition(source: flow.remote)
        responseFlow =
            flow.transport.isReliable
            ? flow
            : Flow(
                transport: flow.transport, listener: flow.listener, connection: 0,
                remote: request.responseEndpoint(source: flow.remote))
    }

    func matched(_ server: ServerTransactionID) -> IncomingRequest {
        var matched = self
        matched.server = server
        return matched
    }

    func response(_ status: Status, toTag: ByteString?, fields: [AddedField]) -> [UInt8] {
        request.frame.response(
            status, toTag: request.to.tag == nil ? toTag : nil, viaAddition: viaAddition, fields: fields)
    }
}
