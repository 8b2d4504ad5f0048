import Collections
import PushDelivery
import Timekeeping

/// What the store is told of calls, so that another run of the program goes on with them: which changes are to be written,
/// and what must not leave before they are.
struct CallJournal {
    /// What must not be lost when the process ends now, in its order.
    private(set) var urgent: [EngineChange] = []
    /// What may be.
    private(set) var others: [EngineChange] = []
    /// Messages and pushes that leave when the urgent changes are written.
    private(set) var held: [ProxyAction] = []
    /// The same for what is being written, in the order in which the commits end.
    private var writing = Queue<Writing>()
    private var lastTicket: UInt64 = 0
    /// Calls that were answered. Their rows stay for a moment, for a 200 whose ACK is missing.
    private var answered = Queue<(call: Call, until: Instant)>()
    /// Whether somebody will look at how long things have been held.
    var isWatched = false

    private struct Writing {
        let ticket: UInt64
        var held: [ProxyAction]
    }

    mutating func note(_ change: CallChange, isUrgent: Bool) {
        if isUrgent { urgent.append(.call(change)) } else { others.append(.call(change)) }
    }

    mutating func takeUrgent() -> [EngineChange] {
        defer { urgent = [] }
        return urgent
    }

    mutating func takeOthers() -> [EngineChange] {
        defer { others = [] }
        return others
    }

    // MARK: What waits

    mutating func hold(_ actions: some Sequence<ProxyAction>) { held.append(contentsOf: actions) }

    mutating func takeHeld() -> [ProxyAction] {
        defer { held = [] }
        return held
    }

    /// What is held waits for a commit.
    ///
    /// - Returns: the commit's ticket; `nil` when nothing is held.
    mutating func beginWriting() -> CommitTicket? {
        guard !held.isEmpty else { return nil }
        lastTicket &+= 1
        writing.append(Writing(ticket: lastTicket, held: takeHeld()))
        return CommitTicket(lastTicket, of: .calls)
    }

    /// The store has it, or takes nothing.
    ///
    /// - Returns: what has waited for it.
    mutating func written(_ ticket: CommitTicket) -> [ProxyAction] {
        guard writing.first?.ticket == ticket.number else { return [] }
        return writing.popFirst()?.held ?? []
    }

    /// The number of the last commit that was asked for, if any is under way.
    var underWay: UInt64? { writing.isEmpty ? nil : lastTicket }

    /// The store takes too long.
    ///
    /// - Returns: what has waited for the commits up to this one.
    mutating func takeLate(upTo ticket: UInt64) -> [ProxyAction] {
        var late: [ProxyAction] = []
        while let first = writing.first, first.ticket <= ticket {
            late += first.held
            _ = writing.popFirst()
        }
        return late
    }

    // MARK: Answered calls

    /// When the first of them is over; `nil` while there is none.
    var nextEnd: Instant? { answered.first?.until }

    mutating func answered(_ call: Call, until end: Instant) { answered.append((call, end)) }

    mutating func takeAnswered(now: Instant) -> Call? {
        guard let first = answered.first, first.until <= now else { return nil }
        return answered.popFirst()?.call
    }
}

extension ForkBranch {
    /// Whatever of it changes in the store, in a few bits.
    var journalState: UInt8 {
        let stage: UInt8 =
            switch state {
            case .waiting: 1
            case .unsent, .resolving, .calling: 2
            case .ended: 3
            }
        return stage | (wasWoken ? 4 : 0) | (deviceKnows ? 8 : 0) | (hasMoved ? 16 : 0) | (end != nil ? 32 : 0)
            | (push != nil || wasPushed ? 64 : 0)
    }

    /// The part of it without which another run would do something wrong: whom it has woken and called, and whether that is
    /// over.
    static let urgentState: UInt8 = 3 | 4 | 32
}
