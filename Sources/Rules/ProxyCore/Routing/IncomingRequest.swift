import Addressing
import Bytes
import Registration
import SIPGrammar
import SIPTransactions

/// A request on its way through the engine, with what answering it needs.
struct IncomingRequest {
    let request: SIPRequest
    let flow: Flow
    /// It came from a trusted peer.
    let isTrusted: Bool
    /// `;received=...;rport=...` for the topmost Via (RFC 3581), in each response and in the forwarded request.
    let viaAddition: ViaAddition
    let responseFlow: Flow
    /// The key for its transaction, which it may not have yet.
    private(set) var key: TransactionKey?
    /// The user who has shown a password for it.
    var sender: AddressOfRecord?
    /// `nil` while nothing is kept of it: it is answered statelessly then.
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

    func matched(_ server: ServerTransactionID) -> IncomingRequest {
        var matched = self
        matched.server = server
        return matched
    }

    /// How long an answer may be for which nobody has proved anything (T4.1).
    var answerLimit: Int { isTrusted ? .max : flow.answerLimit(to: request.frame) }

    func response(_ status: Status, toTag: ToTag?, fields: [AddedField]) -> [UInt8] {
        request.response(status, toTag: toTag, viaAddition: viaAddition, fields: fields)
    }

    /// The same, with fields that are written in place, for which about `size` bytes are reserved.
    func response(
        _ status: Status, toTag: ToTag?, reserving size: Int, _ appendFields: (inout ByteSink) -> Void
    ) -> [UInt8] {
        request.response(
            status, toTag: toTag, viaAddition: viaAddition, reserving: size, appendFields)
    }
}

extension Flow {
    /// Over UDP the source of a message may be invented: what it makes us send there is at most three times as long.
    func answerLimit(to frame: MessageFrame) -> Int { transport.isReliable ? .max : frame.bytes.count * 3 }
}
