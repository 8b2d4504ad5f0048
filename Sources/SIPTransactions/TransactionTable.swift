package import Addressing
package import SIPGrammar
package import Timekeeping

/// How many transactions a table holds at most.
package struct TransactionLimits: Sendable {
    /// Server transactions; a CANCEL of one of them is taken beyond this.
    package var serverTransactions = 400_000
    /// Answered non-INVITE server transactions that wait for retransmissions (timer J); beyond it the oldest goes.
    package var completedNonInvite = 16_384
    package var clientTransactions = 1_000_000

    package init() {}
}

/// All transactions of one shard (RFC 3261 section 17 with RFC 4320 and RFC 6026), and their timers.
package struct TransactionTable: Sendable {
    package init(
        branchKey: BranchKey, timers: TransactionTimers = TransactionTimers(),
        limits: TransactionLimits = TransactionLimits()
    ) {}

    /// When `deadlineReached` is to be called next; it may find nothing to do then.
    package var nextDeadline: Instant? { nil }

    package mutating func deadlineReached(now: Instant, into out: inout [TransactionOutput]) {}
}

// MARK: Server side

extension TransactionTable {
    package mutating func requestReceived(
        _ request: SIPRequest, respondOn flow: Flow, now: Instant, into out: inout [TransactionOutput]
    ) -> RequestMatch { .overloaded }

    package mutating func respond(
        _ id: ServerTransactionID, status: Status, bytes: [UInt8], now: Instant, into out: inout [TransactionOutput]
    ) {}
}

// MARK: Client side

extension TransactionTable {
    /// Reserves an id; `nil` when the table is full.
    package mutating func makeClientTransaction() -> ClientTransactionID? { nil }

    /// Gives back an id that was never started.
    package mutating func discard(_ id: ClientTransactionID) {}

    package func viaBranch(for id: ClientTransactionID, loopHash: UInt64) -> ByteString { .empty }

    package func loopHash(inBranch branch: ByteString) -> UInt64? { nil }

    package mutating func start(
        _ id: ClientTransactionID, request: OutgoingRequest, on flow: Flow, now: Instant,
        into out: inout [TransactionOutput]
    ) {}

    package mutating func responseReceived(
        _ response: SIPResponse, now: Instant, into out: inout [TransactionOutput]
    ) {}

    package mutating func cancel(
        _ id: ClientTransactionID, reasons: [ByteString], now: Instant, into out: inout [TransactionOutput]
    ) {}

    package mutating func transportFailed(
        _ id: ClientTransactionID, now: Instant, into out: inout [TransactionOutput]
    ) {}

    package mutating func transportFailed(on flow: Flow, now: Instant, into out: inout [TransactionOutput]) {}
}

/// The secret that marks this process's Via branches.
package struct BranchKey: Sendable {
    package init(_ first: UInt64, _ second: UInt64) {}
}
