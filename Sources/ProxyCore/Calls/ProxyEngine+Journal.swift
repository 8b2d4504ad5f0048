import Addressing
import PushDelivery
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping

/// Calls are written down while they wait and ring, so that the end of the process does not end them.
///
/// A call is in the store before its push leaves, an INVITE before it goes to its phone, and the end before its caller hears
/// of it; what providers and phones say of it follows soon. It is there until its caller has acknowledged a refusal, or for a
/// moment after an answer.
extension ProxyEngine {
    /// The call has begun, and its devices have what they get at once. `later` is what must not be done before it is written:
    /// the pushes, and the user's missed calls, which are written with it.
    func begunToOffer(_ call: Call, later: [ProxyAction], now: Moment) {
        guard call.journalling != .off else {
            for action in later { act(action) }
            return
        }
        guard let row = StoredCall(call, code: { ledger.pushes[$0]?.code }) else {
            // It was over at once.
            for action in later { act(action) }
            return journalOver(call)
        }
        var changes: [EngineChange] = [.call(.begun(row))]
        for action in later {
            switch action {
            case .record(let rows): changes += rows
            case .push: journal.hold([action])
            default: act(action)
            }
        }
        // What is sent for it already comes after the call itself.
        changes += journal.takeUrgent()
        for index in call.fork.branches.indices { call.fork.journalled(index) }
        let ticket = journal.beginWriting()
        act(.journal(changes, ticket))
        if ticket != nil { watchJournal(now: now) }
    }

    // MARK: What waits for the store

    /// What `body` sends for the call leaves when the store has what was noted of it, or after a moment: a disk that hangs must
    /// not stop calls.
    func whenWritten(_ call: Call, now: Moment, _ body: () -> Void) {
        guard call.journalling != .off else { return body() }
        let first = actions.count
        body()
        guard actions.count > first else { return }
        journal.hold(actions[first...])
        actions.removeSubrange(first...)
        watchJournal(now: now)
    }

    private func watchJournal(now: Moment) {
        guard !journal.isWatched else { return }
        journal.isWatched = true
        _ = timers.schedule(.journalLate(journal.underWay ?? 0), at: now.instant + Self.longestWrite)
    }

    private static let longestWrite: Duration = .milliseconds(250)

    /// - Parameters:
    ///   - ticket: the last commit that was under way a moment ago.
    ///   - now: the time.
    func journalLate(_ ticket: UInt64, now: Moment) {
        journal.isWatched = false
        let late = journal.takeLate(upTo: ticket)
        if !late.isEmpty {
            log.warning("the store takes long, calls do not wait for it", [.count: .number(late.count)])
            release(late, now: now)
        }
        if journal.underWay != nil { watchJournal(now: now) }
    }

    /// The calls are in the store, or the store takes nothing: then they go on all the same.
    func callCommitted(_ ticket: CommitTicket, now: Moment) { release(journal.written(ticket), now: now) }

    private func release(_ held: [ProxyAction], now: Moment) {
        for action in held {
            if case .push(let push) = action, !ledger.isWanted(push.id) {
                ledger.noted(push.id, .withdrawn, now: now, into: &actions)
            } else {
                act(action)
            }
        }
    }

    /// What is to be written since the last actions.
    func flushJournal() {
        if !journal.urgent.isEmpty {
            let changes = journal.takeUrgent() + journal.takeOthers()
            actions.append(.journal(changes, journal.beginWriting()))
        } else {
            if !journal.others.isEmpty { actions.append(.record(journal.takeOthers())) }
            if !journal.held.isEmpty { actions += journal.takeHeld() }
        }
    }

    // MARK: What is noted

    /// An INVITE leaves for a phone.
    func journalSent(_ branch: Int, of call: Call, _ edits: RequestEdits, on flow: Flow) {
        guard call.journalling != .off else { return }
        let sent = StoredCall.SentINVITE(
            via: edits.via, requestURI: edits.requestURI, routes: edits.routes ?? [], flow: flow)
        note(branch, of: call, sent)
    }

    /// Something may have happened to the call's branches.
    func journal(_ call: Call) {
        guard call.journalling != .off else { return }
        for index in call.fork.branches.indices
        where call.fork.branches[index].journalState != call.fork.branches[index].journalled {
            note(index, of: call, nil)
        }
    }

    private func note(_ index: Int, of call: Call, _ sent: StoredCall.SentINVITE?) {
        let branch = call.fork.branches[index]
        let code = branch.push.flatMap { ledger.pushes[$0]?.code }
        let isUrgent =
            sent != nil || (branch.journalState ^ branch.journalled) & ForkBranch.urgentState != 0
        call.fork.journalled(index)
        journal.note(
            .branch(
                call: call.id.rawValue, number: index, StoredCall.Branch(branch, code: code, sent: sent)),
            isUrgent: isUrgent)
    }

    /// The caller has the final response.
    func journalFinal(_ bytes: [UInt8], _ status: Status, of call: Call, now: Moment) {
        guard call.journalling == .open, status.isFinal else { return }
        if status.isSuccess {
            keepAnswered(call, until: now.instant + Self.answeredTime)
        } else {
            journal.note(.final(call: call.id.rawValue, bytes), isUrgent: true)
        }
    }

    func keepAnswered(_ call: Call, until end: Instant) {
        call.journalling = .answered
        if journal.nextEnd == nil { _ = timers.schedule(.journalDue, at: end) }
        journal.answered(call, until: end)
    }

    /// How long a phone may wait for an ACK, over a crash of this program: nearly all come within a second.
    private static let answeredTime: Duration = .seconds(5)

    func journalDue(now: Moment) {
        while let call = journal.takeAnswered(now: now.instant) { journalOver(call) }
        if let end = journal.nextEnd { _ = timers.schedule(.journalDue, at: end) }
    }

    /// The caller has acknowledged the final response, or will not.
    func journalOver(_ server: ServerTransactionID) {
        if let call = calls.call(of: server), call.journalling == .open { journalOver(call) }
    }

    private func journalOver(_ call: Call) {
        call.journalling = .off
        journal.note(.over(call: call.id.rawValue), isUrgent: false)
    }
}
