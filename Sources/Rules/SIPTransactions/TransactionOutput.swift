package import Addressing
package import SIPGrammar

/// An order or notification of the transaction table. The outputs come in the order of their events.
///
/// Every server transaction ends with exactly one ``serverEnded(_:)``, and every started client transaction with
/// exactly one ``clientEnded(_:)``. No further output about the transaction follows.
package enum TransactionOutput: Sendable {
    /// Send these bytes.
    case send([UInt8], on: Flow)
    /// Handle this response. The core gets every provisional response, the first final response, and each 2xx to an
    /// INVITE (RFC 6026).
    case responseReceived(ClientTransactionID, SIPResponse)
    /// No final response arrived in time (timer B or F, or 64*T1 after a CANCEL). The core treats the time-out like a
    /// 408.
    case clientTimedOut(ClientTransactionID)
    /// An INVITE has rung too long (timer C, RFC 3261 section 16.8). The core cancels the request and answers with 408.
    case clientRangTooLong(ClientTransactionID)
    /// The request could not be sent, or its flow was closed, before a final response. The core treats the failure like
    /// a 503.
    case clientTransportFailed(ClientTransactionID)
    /// The client transaction left the table, so no further 2xx will follow.
    case clientEnded(ClientTransactionID)
    /// The 100 to a non-INVITE request is due (RFC 4320), and the core has not written it yet.
    case provisionalDue(ServerTransactionID)
    /// Timer H fired: no ACK for the final response to an INVITE arrived. ``serverEnded(_:)`` follows.
    case serverTimedOut(ServerTransactionID)
    /// The server transaction left the table. Further responses in this transaction are dropped.
    case serverEnded(ServerTransactionID)
    /// A response matched no client transaction and was dropped (RFC 6026 section 7.3).
    case strayResponse
}

/// The transaction that a received request belongs to.
package enum RequestMatch: Hashable, Sendable {
    /// The request is new. The table keeps no state yet: the core answers it without a transaction, or begins a
    /// transaction with the key.
    case new(TransactionKey)
    /// The request is a CANCEL, which the core answers like any new request. `of` is the INVITE that it cancels, if
    /// this INVITE is still in the table.
    case cancel(TransactionKey, of: ServerTransactionID?)
    /// The request is a retransmission. The stored response was sent again, if there is one.
    case absorbed
    /// The request is a retransmission of an INVITE whose last response was a 100. The core, which has the INVITE,
    /// writes the 100 again.
    case unanswered(ServerTransactionID)
    /// The request is the ACK of a final response other than 2xx. The core does not forward this ACK.
    case acknowledged(ServerTransactionID)
    /// The request is an ACK that matches no transaction, or acknowledges a 2xx. The core forwards it.
    case endToEndACK
}
