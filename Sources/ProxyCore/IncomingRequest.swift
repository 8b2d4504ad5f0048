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
    let server: ServerTransactionID?

    init(_ request: SIPRequest, on flow: Flow) {
        self.init(request, on: flow, server: nil)
    }

    private init(_ request: SIPRequest, on flow: Flow, server: ServerTransactionID?) {
        self.request = request
        self.flow = flow
        self.server = server
        viaAddition = request.viaAddition(source: flow.remote)
        responseFlow =
            flow.transport.isReliable
            ? flow
            : Flow(
                transport: flow.transport, listener: flow.listener, connection: 0,
                remote: request.responseEndpoint(source: flow.remote))
    }

    func matched(_ server: ServerTransactionID) -> IncomingRequest {
        IncomingRequest(request, on: flow, server: server)
    }

    /// A request kept as bytes and read again.
    static func revived(_ request: SIPRequest, on flow: Flow, server: ServerTransactionID) -> IncomingRequest {
        IncomingRequest(request, on: flow, server: server)
    }

    func response(_ status: Status, toTag: ByteString?, fields: [AddedField]) -> [UInt8] {
        request.frame.response(
            status, toTag: request.to.tag == nil ? toTag : nil, viaAddition: viaAddition, fields: fields)
    }
}
