package import Addressing
package import Routing
package import SIPGrammar
package import SIPTransactions
package import Timekeeping

/// Contains the SIP transactions, the owners of client transactions, the results that the engine has not handled yet,
/// and the To tags.
package struct TransactionLayer: ~Copyable {
    package private(set) var transactions: TransactionTable
    /// The part of the proxy that handles the responses of each client transaction.
    package var legs = ClientLegs()
    /// The results of transactions that the engine has not handled yet.
    package var unsettled = Unsettled()
    /// The generator of To tags for the proxy's own responses.
    package var tags: Tags

    package init(branchKey: BranchKey, ringLimit: Duration, tagKey: UInt64) {
        transactions = TransactionTable(branchKey: branchKey)
        transactions.timers.ringLimit = ringLimit
        tags = Tags(key: tagKey)
    }

    package mutating func ringLimitChanged(_ limit: Duration) { transactions.timers.ringLimit = limit }

    // MARK: Server transactions

    /// Finds the server transaction of a received request. With a `flow` for its responses, a new request gets its
    /// transaction immediately.
    package mutating func requestReceived(_ request: SIPRequest, beginningOn flow: Flow?, now: Instant) -> RequestMatch
    {
        transactions.requestReceived(request, beginningOn: flow, now: now, into: &unsettled.outputs)
    }

    /// Creates the server transaction of a new request; `nil` if the transaction table is full.
    package mutating func begin(
        _ key: TransactionKey, for request: SIPRequest, cancelling invite: ServerTransactionID?, respondOn flow: Flow,
        now: Instant
    ) -> ServerTransactionID? {
        transactions.begin(key, for: request, cancelling: invite, respondOn: flow, now: now)
    }

    /// Continues the server transaction of an INVITE from before the restart; `nil` if the transaction table is full.
    package mutating func resume(_ request: SIPRequest, respondOn flow: Flow, now: Instant) -> ServerTransactionID? {
        transactions.resume(request, respondOn: flow, now: now)
    }

    /// Changes the flow for responses to an INVITE whose sender repeats or cancels it on another flow; `nil` if nothing
    /// changes.
    package mutating func redirect(_ invite: SIPRequest, to flow: Flow) -> ServerTransactionID? {
        transactions.redirect(invite, to: flow)
    }

    // MARK: Client transactions

    /// Reserves a client transaction; `nil` if the transaction table is full.
    package mutating func makeClientTransaction() -> ClientTransactionID? { transactions.makeClientTransaction() }

    /// Releases a reserved client transaction that sends nothing.
    package mutating func discard(_ client: ClientTransactionID) { transactions.discard(client) }

    /// Notes that the connection of a client transaction has ended.
    package mutating func connectionEnded(of client: ClientTransactionID) { transactions.connectionEnded(of: client) }

    /// Notes that the phone gets the request again on another flow. The phone may answer the first request on the new
    /// flow too.
    package mutating func calledAnew(_ client: ClientTransactionID, by flow: Flow) {
        transactions.calledAnew(client, by: flow)
    }

    package mutating func responseReceived(
        _ response: SIPResponse, of match: TransactionTable.ClientMatch, now: Instant
    ) {
        transactions.responseReceived(response, of: match, now: now, into: &unsettled.outputs)
    }

    package mutating func deadlineReached(now: Instant) {
        transactions.deadlineReached(now: now, into: &unsettled.outputs)
    }

    /// Changes the transactions with `body`, and passes the resulting messages to `send` in order. All other results of
    /// the transactions stay in ``unsettled`` until the engine handles them.
    package mutating func change(
        _ body: (inout TransactionTable, inout [TransactionOutput]) -> Void, sending send: ([UInt8], Flow) -> Void
    ) {
        body(&transactions, &unsettled.latest)
        unsettled.latest.reverse()
        while let output = unsettled.latest.popLast() {
            if case .send(let bytes, let flow) = output {
                send(bytes, flow)
            } else {
                unsettled.outputs.append(output)
            }
        }
    }
}
