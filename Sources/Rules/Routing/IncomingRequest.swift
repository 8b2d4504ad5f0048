package import Addressing
package import Bytes
package import Registration
package import SIPGrammar
package import SIPTransactions

/// A received request that the engine serves, with the data for its responses.
package struct IncomingRequest {
    package let request: SIPRequest
    package let flow: Flow
    /// Whether a trusted peer sent the request.
    package let isTrusted: Bool
    /// The parameters `;received=...;rport=...` of the topmost Via, for responses and the forwarded request (RFC 3581).
    package let viaAddition: ViaAddition
    package let responseFlow: Flow
    /// The key of the request's server transaction; `nil` before the transaction table has seen the request. The
    /// transaction may begin later.
    package private(set) var key: TransactionKey?
    /// The user whose right password came with the request; `nil` without a right password.
    package private(set) var sender: AddressOfRecord?
    /// The nonce by which a REGISTER has proved its user; `nil` if the REGISTER proved no user.
    package private(set) var nonce: NonceUse?
    /// Whether the request has waited for the answer of a source of users.
    package private(set) var hasWaited = false
    /// Whether the store was asked about the users whom the request concerns.
    package private(set) var reading = Reading.none
    /// The request's server transaction; `nil` if responses are sent statelessly.
    package private(set) var server: ServerTransactionID?

    package init(_ request: SIPRequest, on flow: Flow, isTrusted: Bool) {
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

    /// A copy of a new request with its transaction key. If the transaction has begun, the copy also has the
    /// transaction.
    package func unmatched(_ key: TransactionKey, _ server: ServerTransactionID? = nil) -> IncomingRequest {
        var unmatched = self
        unmatched.key = key
        unmatched.server = server
        return unmatched
    }

    /// A copy of the request with the note that it has waited for a source of users.
    package var afterWaiting: IncomingRequest {
        var incoming = self
        incoming.hasWaited = true
        return incoming
    }

    /// Whether the users whom a request concerns are as the store has them.
    package enum Reading: Hashable, Sendable {
        case none
        case fresh
        /// The store did not answer, so the engine decides by the last known contacts.
        case stale
    }

    /// A copy of the request, with the note whether the store has answered about its users.
    package func read(_ reading: Reading) -> IncomingRequest {
        var incoming = self
        incoming.reading = reading
        return incoming
    }

    /// A copy of the request with the authenticated sender.
    package func proved(by sender: AddressOfRecord?) -> IncomingRequest {
        var proved = self
        proved.sender = sender
        return proved
    }

    /// A copy of the REGISTER with the nonce by which the sender has authenticated.
    package func proved(with nonce: NonceUse?) -> IncomingRequest {
        var proved = self
        proved.nonce = nonce
        return proved
    }

    /// A copy of the request with the same transaction, but other bytes.
    package func with(_ request: SIPRequest) -> IncomingRequest {
        var changed = IncomingRequest(request, on: flow, isTrusted: isTrusted)
        (changed.key, changed.sender, changed.hasWaited, changed.server) = (key, sender, hasWaited, server)
        (changed.nonce, changed.reading) = (nonce, reading)
        return changed
    }

    package func matched(_ server: ServerTransactionID) -> IncomingRequest {
        var matched = self
        matched.server = server
        return matched
    }

    /// The maximum length in bytes of a response to the request; only unauthenticated senders have a limit (T4.1).
    package var answerLimit: Int { isTrusted ? .max : flow.answerLimit(to: request.frame) }

    package func response(_ status: Status, toTag: ToTag?, fields: [AddedField]) -> [UInt8] {
        request.response(status, toTag: toTag, viaAddition: viaAddition, fields: fields)
    }

    /// The bytes of a response, to which `appendFields` adds header fields of about `size` bytes.
    package func response(
        _ status: Status, toTag: ToTag?, reserving size: Int, _ appendFields: (inout ByteSink) -> Void
    ) -> [UInt8] {
        request.response(
            status, toTag: toTag, viaAddition: viaAddition, reserving: size, appendFields)
    }
}

extension Flow {
    /// The maximum length in bytes of a response to a sender that has not authenticated.
    ///
    /// A response over UDP has at most three times the length of the request, because the source address may be forged.
    package func answerLimit(to frame: MessageFrame) -> Int { transport.isReliable ? .max : frame.bytes.count * 3 }
}
