package import Addressing
package import SIPGrammar

/// An order or a message from the transaction table to the core. Outputs are in the order of the events that caused
/// them.
///
/// The last output of a server transaction is ``serverEnded(_:)``, and of a started client transaction
/// ``clientEnded(_:)``; both come exactly once.
package enum TransactionOutput: Sendable {
    /// Send the message's bytes on the flow.
    case send([UInt8], on: Flow)
    /// A response has arrived in a client transaction. The core gets every provisional response, the first final
    /// response, and each 2xx to an INVITE (RFC 6026).
    case responseReceived(ClientTransactionID, SIPResponse)
    /// No final response arrived in time (timer B or F, or 64*T1 after a CANCEL). The engine treats the time-out like a
    /// 408 response.
    case clientTimedOut(ClientTransactionID)
    /// An INVITE has been ringing too long (timer C, RFC 3261 section 16.8). The core cancels the INVITE and answers
    /// the caller with 408.
    case clientRangTooLong(ClientTransactionID)
    /// The request could not be sent, or the request's flow was closed before a final response came. The engine treats
    /// the failed transport like a 503 response.
    case clientTransportFailed(ClientTransactionID)
    /// The client transaction has ended, so no further 2xx in it will follow.
    case clientEnded(ClientTransactionID)
    /// RFC 4320 now allows a 100 to a request other than INVITE, so the engine must write the 100.
    case provisionalDue(ServerTransactionID)
    /// Timer H has fired without an ACK for the final response to an INVITE; ``serverEnded(_:)`` follows.
    case serverTimedOut(ServerTransactionID)
    /// The server transaction has ended. The table drops further responses in an ended transaction.
    case serverEnded(ServerTransactionID)
    /// A response without a client transaction was dropped (RFC 6026 section 7.3).
    case strayResponse
}

/// The transaction to which a received request belongs.
package enum RequestMatch: Hashable, Sendable {
    /// The request is new. Without a transaction, the table has stored nothing about the request, so the engine answers
    /// the request statelessly, or begins a transaction with the given key.
    case new(TransactionKey, ServerTransactionID?)
    /// The request is a new CANCEL, which the core answers like any other new request. The associated value `of` is the
    /// cancelled INVITE, if the INVITE is still in the table.
    case cancel(TransactionKey, of: ServerTransactionID?)
    /// The request is a retransmission; a stored response was sent again.
    case absorbed
    /// The request is a retransmission of an INVITE whose last response was a 100. The core must write the 100 again,
    /// because the table has not stored the 100.
    case unanswered(ServerTransactionID)
    /// The request is the ACK for a final response other than 2xx. The core does not forward the ACK for a final
    /// response other than 2xx.
    case acknowledged(ServerTransactionID)
    /// The request is an ACK for a 2xx, or for an unknown transaction; the core forwards the ACK.
    case endToEndACK
}
