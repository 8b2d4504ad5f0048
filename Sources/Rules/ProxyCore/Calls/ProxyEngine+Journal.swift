import Addressing
import Collections
import SIPGrammar
import SIPTransactions
import Timekeeping

/// The journal of active calls: waiting and ringing calls survive a restart of the daemon.
///
/// A journal entry comes before the messages and pushes that follow from it, and the shell writes the entry first. A
/// call is written before its push, an INVITE before the phone gets it, and the end before the caller learns it. A call
/// stays in the journal until its caller has acknowledged the end; for calls with a 2xx see ``AnsweredCalls``.
extension ProxyEngine {
    /// The call has begun, and its devices have got the INVITE or a push.
    ///
    /// - Parameters:
    ///   - call: the call, which may be over already.
    ///   - place: the index of the call's first action, where the entry is inserted.
    ///   - now: both clocks.
    func journalBegun(_ call: ProxiedRequest, at place: Int, now: Moment) {
        guard call.journalling != .off else { return }
        let request = call.request.unpacked(functions.packing)
        guard let stored = StoredCall(call, request, receivedAt: now.date, code: { ledger.pushes[$0]?.code }) else {
            call.journalling = .off
            return
        }
        actions.insert(.journal(.begun(stored)), at: place)
        for index in call.fork.branches.indices { call.fork.wasWritten(index) }
    }

    /// A branch sends an INVITE.
    func journalSent(_ branch: Int, of call: ProxiedRequest, _ edits: RequestEdits, on flow: Flow) {
        guard call.journalling != .off else { return }
        let sent = StoredCall.SentINVITE(
            via: edits.via, requestURI: edits.requestURI, routes: edits.routes ?? [], flow: flow)
        note(branch, of: call, sent)
    }

    /// Writes the call's branches that have changed.
    ///
    /// - Parameters:
    ///   - call: the call; ignored if the journal does not keep it.
    ///   - place: the index among the actions where the entries are inserted; the end if `nil`.
    func journal(_ call: ProxiedRequest, at place: Int? = nil) {
        guard call.journalling != .off else { return }
        for index in call.fork.branches.indices where call.fork.branches[index].hasNews {
            note(index, of: call, nil, at: place)
        }
    }

    private func note(_ index: Int, of call: ProxiedRequest, _ sent: StoredCall.SentINVITE?, at place: Int? = nil) {
        call.fork.wasWritten(index)
        let branch = call.fork.branches[index]
        let code = branch.push.flatMap { ledger.pushes[$0]?.code }
        let change = CallChange.branch(
            call: call.id.rawValue, number: index, StoredCall.Branch(branch, code: code, sent: sent))
        if let place { actions.insert(.journal(change), at: place) } else { act(.journal(change)) }
    }

    /// The caller gets a final response other than 2xx.
    func journalRefusal(_ bytes: [UInt8], of call: ProxiedRequest) {
        guard call.journalling == .open else { return }
        act(.journal(.final(call: call.id.rawValue, bytes)))
    }

    /// The caller gets a 2xx of a phone.
    func journalAnswer(_ response: SIPResponse, of call: ProxiedRequest, now: Moment) {
        guard call.journalling != .off else { return }
        let dialog = AnsweredCalls.dialog(response.callID, response.to.tag, response.cseq.number)
        calls.answered.note(call, in: dialog, now: now.instant)
        armJournal()
    }

    /// The ACK of a 2xx was sent to the phone.
    func journalACK(_ request: SIPRequest, now: Moment) {
        guard !calls.answered.isEmpty else { return }
        calls.answered.acknowledged(
            AnsweredCalls.dialog(request.callID, request.to.tag, request.cseq.number), now: now.instant)
    }

    /// Keeps a call that was answered in an earlier run.
    func keepAnswered(_ call: ProxiedRequest, now: Moment) {
        calls.answered.resume(call, now: now.instant)
        armJournal()
    }

    private func armJournal() {
        if let end = calls.answered.timerWanted() { _ = timers.schedule(.journalDue, at: end) }
    }

    func journalDue(now: Moment) {
        guard calls.answered.timerFired(now: now.instant) else { return }
        while let call = calls.answered.popDue(now: now.instant) { journalOver(call) }
        armJournal()
    }

    /// The caller has acknowledged the final response, or its transaction is over without ACK.
    func journalOver(_ server: ServerTransactionID) {
        if let call = calls.call(of: server), call.journalling == .open { journalOver(call) }
    }

    private func journalOver(_ call: ProxiedRequest) {
        call.journalling = .off
        act(.journal(.over(call: call.id.rawValue)))
    }
}
