package import Addressing
package import SIPGrammar

/// The orders and notifications of a table, in the order of their events.
///
/// Every server transaction ends with exactly one ``serverEnded(_:)``, and every started client transaction with
/// exactly one ``clientEnded(_:)``. No output follows about that transaction.
package enum TransactionOutput: Sendable {
    /// Send these bytes.
    case send([UInt8], on: Flow)
    /// A response for the core: every provisional one, the first final one, and each 2xx to an INVITE (RFC 6026).
    case responseReceived(ClientTransactionID, SIPResponse)
    /// No final response arrived in time (timer B or F, or 64*T1 after a CANCEL): counts as 408.
    case clientTimedOut(ClientTransactionID)
    /// An INVITE has rung too long (timer C, section 16.8): the core cancels it and answers with 408.
    case clientRangTooLong(ClientTransactionID)
    /// The request could not be sent, or its flow was closed, before a final response: counts as 503.
    case clientTransportFailed(ClientTransactionID)
    /// The client transaction left the table; no further 2xx will follow.
    case clientEnded(ClientTransactionID)
    /// A 100 may be sent for which no bytes were given (RFC 4320): answer with them.
    case provisionalDue(ServerTransactionID)
    /// Timer H: no ACK for the final response to an INVITE arrived. ``serverEnded(_:)`` follows.
    case serverTimedOut(ServerTransactionID)
    /// The server transaction left the table. Further responses to it are dropped.
    case serverEnded(ServerTransactionID)
    /// A response matched no client transaction and was dropped (RFC 6026 section 7.3).
    case strayResponse
}

/// The result of matching a received request.
package enum RequestMatch: Hashable, Sendable {
    /// A new request. It leaves no state: the core answers without a transaction, or begins one with the key.
    case new(TransactionKey)
    /// A CANCEL, to be answered like any new request, with the INVITE that it names if that is still in the table.
    case cancel(TransactionKey, of: ServerTransactionID?)
    /// A retransmission. The stored response, if any, was sent again.
    case absorbed
    /// A retransmission of an INVITE whose last response was a 100. The core, which keeps the INVITE, writes the 100
    /// again.
    case unanswered(ServerTransactionID)
    /// The ACK of a final response other than 2xx. It ends here.
    case acknowledged(ServerTransactionID)
    /// An ACK that matches no transaction, or acknowledges a 2xx: the core routes it.
    case endToEndACK
}
