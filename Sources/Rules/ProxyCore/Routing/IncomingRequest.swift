import Addressing
import Bytes
import Registration
import SIPGrammar
import SIPTransactions

/// A request that the engine is serving, with the data that a response to the request needs.
struct IncomingRequest {
    let request: SIPRequest
    let flow: Flow
    /// Whether a trusted peer sent the request.
    let isTrusted: Bool
    /// `;received=...;rport=...` for the topmost Via (RFC 3581). Each response and the forwarded request get it.
    let viaAddition: ViaAddition
    let responseFlow: Flow
    /// The key by which a server transaction can be made for the request later. `nil` before the transaction table saw
    /// the request.
    private(set) var key: TransactionKey?
    /// The user whose password came with the request, if that password was right.
    var sender: AddressOfRecord?
    /// Whether the request has waited until the sources of users said who its user is.
    private(set) var hasWaited = false
    /// `nil` while the request has no server transaction. Responses are stateless then.
    private(set) var server: ServerTransactionID?

    init(_ request: SIPRequest, on flow: Flow, isTrusted: Bool) {
        self.request = request
        self.flow = flow
        self.isTrusted = isTrusted
        viaAddition = request.viaAddition(source: flow.remote)
        responseFlow =
            flow.transport.isReliable
            ? flow
            : Flow(
                transport: flow.transport, listener: flow.listener, connection: 0,
                remote: request.responseEndpoint(source: flow.remote))
    }

    func unmatched(_ key: TransactionKey) -> IncomingRequest {
        var unmatched = self
        unmatched.key = key
        return unmatched
    }

    var afterWaiting: IncomingRequest {
        var incoming = self
        incoming.hasWaited = true
        return incoming
    }

    func matched(_ server: ServerTransactionID) -> IncomingRequest {
        var matched = self
        matched.server = server
        return matched
    }

    /// The maximum length in bytes of a response while the sender has proved nothing (T4.1).
    var answerLimit: Int { isTrusted ? .max : flow.answerLimit(to: request.frame) }

    func response(_ status: Status, toTag: ToTag?, fields: [AddedField]) -> [UInt8] {
        request.response(status, toTag: toTag, viaAddition: viaAddition, fields: fields)
    }

    /// A response whose added fields are written in place. About `size` bytes are reserved for those fields.
    func response(
        _ status: Status, toTag: ToTag?, reserving size: Int, _ appendFields: (inout ByteSink) -> Void
    ) -> [UInt8] {
        request.response(
            status, toTag: toTag, viaAddition: viaAddition, reserving: size, appendFields)
    }
}

extension Flow {
    /// The source address of a UDP message may be forged. A response to UDP is at most three times as long as the
    /// request.
    func answerLimit(to frame: MessageFrame) -> Int { transport.isReliable ? .max : frame.bytes.count * 3 }
}
