package import Addressing
package import Routing
package import SIPGrammar
package import SIPTransactions
package import Timekeeping

/// The SIP transactions, with their owners, their results that the engine has not handled yet, and the tags of
/// responses.
package struct TransactionLayer: ~Copyable {
    package var transactions: TransactionTable
    /// The owners of client transactions.
    package var legs = ClientLegs()
    /// The results of transactions that the engine has not handled yet.
    package var unsettled = Unsettled()
    /// The tags of responses that this proxy creates.
    package var tags: Tags

    package init(branchKey: BranchKey, ringLimit: Duration, tagKey: UInt64) {
        transactions = TransactionTable(branchKey: branchKey)
        transactions.timers.ringLimit = ringLimit
        tags = Tags(key: tagKey)
    }

    package mutating func requestReceived(_ request: SIPRequest, now: Instant) -> RequestMatch {
        transactions.requestReceived(request, now: now, into: &unsettled.outputs)
    }

    package mutating func responseReceived(
        _ response: SIPResponse, of match: TransactionTable.ClientMatch, now: Instant
    ) {
        transactions.responseReceived(response, of: match, now: now, into: &unsettled.outputs)
    }

    package mutating func deadlineReached(now: Instant) {
        transactions.deadlineReached(now: now, into: &unsettled.outputs)
    }

    /// Changes the transactions with `body`, and passes the messages to send to `send`, in order. All other results of
    /// the transactions wait until the engine handles them.
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
