import Addressing
import Collections
import SIPGrammar
import SIPTransactions
import Timekeeping

/// Calls are written down while they wait and ring, so that the end of the process does not end them.
///
/// What is to be written comes before the messages and pushes that follow from it, and the shell writes it first: a call
/// before its push leaves, an INVITE before it goes to its phone, the end before its caller hears of it. A call is kept until
/// its caller has acknowledged the end, and for a moment more after an answer.
extension ProxyEngine {
    /// The call has begun, and its devices get what they get at once.
    ///
    /// - Parameters:
    ///   - call: it may be over already.
    ///   - place: where among the actions it begins.
    ///   - now: both clocks.
    func journalBegun(_ call: Call, at place: Int, now: Moment) {
        guard call.journalling != .off else { return }
        let request = call.request.unpacked(functions.packing)
        guard let stored = StoredCall(call, request, receivedAt: now.date, code: { ledger.pushes[$0]?.code }) else {
            call.journalling = .off
            return
        }
        actions.insert(.journal(.begun(stored)), at: place)
        for index in call.fork.branches.indices { call.fork.wasWritten(index) }
    }

    /// An INVITE leaves for a phone.
    func journalSent(_ branch: Int, of call: Call, _ edits: RequestEdits, on flow: Flow) {
        guard call.journalling != .off else { return }
        let sent = StoredCall.SentINVITE(
            via: edits.via, requestURI: edits.requestURI, routes: edits.routes ?? [], flow: flow)
        note(branch, of: call, sent)
    }

    /// Something may have happened to the call's branches.
    ///
    /// - Parameters:
    ///   - call: one that is not kept is left alone.
    ///   - place: where among the actions that is written; at their end without it.
    func journal(_ call: Call, at place: Int? = nil) {
        guard call.journalling != .off else { return }
        for index in call.fork.branches.indices where call.fork.branches[index].hasNews {
            note(index, of: call, nil, at: place)
        }
    }

    private func note(_ index: Int, of call: Call, _ sent: StoredCall.SentINVITE?, at place: Int? = nil) {
        call.fork.wasWritten(index)
        let branch = call.fork.branches[index]
        let code = branch.push.flatMap { ledger.pushes[$0]?.code }
        let change = CallChange.branch(
            call: call.id.rawValue, number: index, StoredCall.Branch(branch, code: code, sent: sent))
        if let place { actions.insert(.journal(change), at: place) } else { act(.journal(change)) }
    }

    /// The caller gets a refusal.
    func journalRefusal(_ bytes: [UInt8], of call: Call) {
        guard call.journalling == .open else { return }
        act(.journal(.final(call: call.id.rawValue, bytes)))
    }

    /// The caller gets a phone's answer.
    func journalAnswer(_ response: SIPResponse, of call: Call, now: Moment) {
        guard call.journalling != .off else { return }
        let dialog = AnsweredCalls.dialog(response.callID, response.to.tag, response.cseq.number)
        calls.answered.note(call, in: dialog, now: now.instant)
        armJournal()
    }

    /// The ACK of an answer has gone to its phone.
    func journalACK(_ request: SIPRequest, now: Moment) {
        guard !calls.answered.isEmpty else { return }
        calls.answered.acknowledged(
            AnsweredCalls.dialog(request.callID, request.to.tag, request.cseq.number), now: now.instant)
    }

    /// A call that an earlier run has seen answered.
    func keepAnswered(_ call: Call, now: Moment) {
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

    /// The caller has acknowledged the final response, or will not.
    func journalOver(_ server: ServerTransactionID) {
        if let call = calls.call(of: server), call.journalling == .open { journalOver(call) }
    }

    private func journalOver(_ call: Call) {
        call.journalling = .off
        act(.journal(.over(call: call.id.rawValue)))
    }
}
