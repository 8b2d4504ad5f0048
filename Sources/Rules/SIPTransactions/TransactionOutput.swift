package import Addressing
package import SIPGrammar

/// What a table orders, or tells the core, in the order it happened.
///
/// Every server transaction ends with exactly one ``serverEnded(_:)``, every started client transaction with exactly
/// one ``clientEnded(_:)``; nothing is said about a transaction after that.
package enum TransactionOutput: Sendable {
    /// Put these bytes on the wire.
    case send([UInt8], on: Flow)
    /// A response for the core: every provisional one, the first final one, and each 2xx to an INVITE (RFC 6026).
    case responseReceived(ClientTransactionID, SIPResponse)
    /// No final response came in time (timer B or F, or 64*T1 after a CANCEL): counts as 408.
    case clientTimedOut(ClientTransactionID)
    /// An INVITE has rung for too long (timer C, section 16.8): the core cancels it and answers for it with 408.
    case clientRangTooLong(ClientTransactionID)
    /// The request could not be sent, or its flow is gone, before a final response: counts as 503.
    case clientTransportFailed(ClientTransactionID)
    /// The client transaction left the table; no further 2xx will come.
    case clientEnded(ClientTransactionID)
    /// A 100 may go for which no bytes were given (RFC 4320): answer with them.
    case provisionalDue(ServerTransactionID)
    /// Timer H: nobody acknowledged the final response to an INVITE. ``serverEnded(_:)`` follows.
    case serverTimedOut(ServerTransactionID)
    /// The server transaction left the table; what it is answered from now on is dropped.
    case serverEnded(ServerTransactionID)
    /// A response matched no client transaction and was dropped (RFC 6026 section 7.3).
    case strayResponse
}

/// What a table made of a received request.
package enum RequestMatch: Hashable, Sendable {
    /// The first of its kind. Nothing is kept of it: the core answers without a transaction, or begins one with the key.
    case new(TransactionKey)
    /// A CANCEL, to be answered like any new request, with the INVITE it names if that is still in the table.
    case cancel(TransactionKey, of: ServerTransactionID?)
    /// A retransmission; the stored response was sent again if there is one.
    case absorbed
    /// A retransmission of an INVITE whose last response was a 100: the core, which keeps the INVITE, writes that again.
    case unanswered(ServerTransactionID)
    /// The ACK of a final response other than 2xx; it ends here.
    case acknowledged(ServerTransactionID)
    /// An ACK that belongs to no transaction, or acknowledges a 2xx: the core routes it.
    case endToEndACK
}
