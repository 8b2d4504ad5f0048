import Collections
package import Timekeeping

/// The limits for the number of transactions in a table.
package struct TransactionLimits: Sendable {
    /// The maximum number of server transactions. The CANCEL of an INVITE in the table is accepted even above the
    /// maximum number of server transactions.
    package var serverTransactions = 400_000
    /// The number of server transactions above the maximum that only BYEs may use, so that calls can end even if the
    /// table is full.
    package var keptForByes = 50_000
    /// The maximum number of completed server transactions, other than INVITE, that wait for retransmissions (timer J).
    /// Above the maximum, the oldest transaction ends. A late retransmission of its request is then treated as a new
    /// request.
    package var completedNonInvite = 16_384
    /// The maximum number of client transactions, including reserved transactions. The CANCEL of an INVITE in the table
    /// is sent even above the maximum number of client transactions.
    package var clientTransactions = 1_000_000

    package init() {}
}

/// All transactions of one shard, with their timers (RFC 3261 section 17 with RFC 4320 and RFC 6026).
///
/// The transaction table does no input or output: the engine passes requests, responses, orders and the time to the
/// table. The transaction table appends its orders to the outputs.
package struct TransactionTable: ~Copyable, Sendable {
    package var timers: TransactionTimers
    let limits: TransactionLimits
    package let branchKey: BranchKey

    var servers = Slab<ServerRecord>()
    var serverIndex = SlotIndex()
    /// The completed server transactions, other than INVITE, in the order of their final responses. The timers J fire
    /// in the order of completion, so a queue is enough.
    var completed = Queue<(id: ServerTransactionID, until: Instant)>()

    var clients = Slab<ClientRecord>()
    var inherited = InheritedBranches()
    var flows = ClientsByFlow()
    /// The transactions of the daemon's CANCELs. The key of an entry is the cancelled INVITE, because INVITE and CANCEL
    /// have the same branch.
    var cancellations: [ClientTransactionID: ClientTransactionID] = [:]

    var deadlines = DeadlineQueue<TransactionDeadline>()

    package init(
        branchKey: BranchKey, timers: TransactionTimers = TransactionTimers(),
        limits: TransactionLimits = TransactionLimits()
    ) {
        precondition(
            max(limits.serverTransactions, limits.clientTransactions) < Slab<ServerRecord>.maximumCount / 2,
            "ids have room for 8 million transactions and their CANCELs")
        self.branchKey = branchKey
        self.timers = timers
        self.limits = limits
    }

    package var serverCount: Int { servers.count }
    package var clientCount: Int { clients.count }

    /// The time at which ``deadlineReached(now:into:)`` must run next, even if no timer fires then.
    package var nextDeadline: Instant? {
        guard let first = completed.first else { return deadlines.nextDeadline }
        return min(first.until, deadlines.nextDeadline ?? .distantFuture)
    }

    package mutating func deadlineReached(now: Instant, into out: inout [TransactionOutput]) {
        while let first = completed.first, first.until <= now { dropOldestCompleted(into: &out) }
        while let deadline = deadlines.popExpired(now: now) {
            let slot = Int(deadline.slot)
            switch deadline.job {
            case .serverResend: serverResendDue(slot, now: now, into: &out)
            case .serverWait: serverWaitEnded(slot, into: &out)
            case .clientResend: clientResendDue(slot, now: now, into: &out)
            case .clientWait: clientWaitEnded(slot, now: now, into: &out)
            }
        }
    }
}
