package import Addressing
package import SIPGrammar

/// The orders and notifications of a table, in the order of their events.
///
/// Every server transaction ends with exactly one ``serverEnded(_:)``, and every started client transaction with
/// exactly one ``clientEnded(_:)``. No further output about that transaction follows.
package enum TransactionOutput: Sendable {
    /// Send these bytes.
    case send([UInt8], on: Flow)
    /// A response for the core: every provisional response, the first final response, and each 2xx to an INVITE (RFC
    /// 6026).
    case responseReceived(ClientTransactionID, SIPResponse)
    /// No final response arrived in time (timer B or F, or 64*T1 after a CANCEL). The core treats this as a 408.
    case clientTimedOut(ClientTransactionID)
    /// An INVITE has rung too long (timer C, RFC 3261 section 16.8). The core cancels it and answers with 408.
    case clientRangTooLong(ClientTransactionID)
    /// The request could not be sent, or its flow was closed, before a final response. The core treats this as a 503.
    case clientTransportFailed(ClientTransactionID)
    /// The client transaction left the table; no further 2xx will follow.
    case clientEnded(ClientTransactionID)
    /// The 100 to a non-INVITE request is due (RFC 4320), and the core has not written it yet.
    case provisionalDue(ServerTransactionID)
    /// Timer H fired: no ACK for the final response to an INVITE arrived. ``serverEnded(_:)`` follows.
    case serverTimedOut(ServerTransactionID)
    /// The server transaction left the table. Further responses to it are dropped.
    case serverEnded(ServerTransactionID)
    /// A response matched no client transaction and was dropped (RFC 6026 section 7.3).
    case strayResponse
}

/// The result of matching a received request.
package enum RequestMatch: Hashable, Sendable {
    /// A new request. The table keeps no state yet: the core answers it without a transaction, or begins one with the
    /// key.
    case new(TransactionKey)
    /// A CANCEL. The core answers it like any new request. `of` is the INVITE that it names, if that is still in the
    /// table.
    case cancel(TransactionKey, of: ServerTransactionID?)
    /// A retransmission. The stored response, if any, was sent again.
    case absorbed
    /// A retransmission of an INVITE whose last response was a 100. The core, which keeps the INVITE, writes the 100
    /// again.
    case unanswered(ServerTransactionID)
    /// The ACK of a final response other than 2xx. The core does not forward this ACK.
    case acknowledged(ServerTransactionID)
    /// An ACK that matches no transaction, or acknowledges a 2xx. The core forwards this ACK.
    case endToEndACK
}
