import Addressing
import PushDelivery
import Timekeeping

/// What became of pushes on their devices: apps say it, and sometimes SIP shows it.
extension PushLedger {
    /// An app reports something of a push. A report that comes twice, or out of order, changes nothing.
    ///
    /// - Returns: whether its record is under way; else its row, if there is one, has to be marked.
    mutating func marked(_ code: PushCode, _ mark: PushMark, by device: DeviceID, at date: UnixTime) -> Bool {
        if mark == .read { unread.ended(code, of: device) }
        return timeline.marked(code, of: device, mark, at: date)
    }

    /// An app reports that its user has read everything.
    mutating func allRead(by device: DeviceID, at date: UnixTime) {
        for code in unread.allRead(by: device) {
            _ = timeline.marked(code, of: device, .read, at: date)
        }
    }

    /// Somebody has the call: the pushes that told of it are old news on all phones.
    mutating func answered(_ call: Call, now: Moment, into actions: inout [ProxyAction]) {
        guard let offer = call.offer, unread.count > 0 else { return }
        for branch in call.fork.branches {
            if let device = branch.device { callIsNoNews(offer.ref, for: device, now: now, into: &actions) }
        }
    }

    /// The device's push that told of the call does not count in the badge any more.
    mutating func callIsNoNews(_ call: CallRef, for device: DeviceID, now: Moment, into actions: inout [ProxyAction]) {
        guard let code = unread.callIsNoNews(call, of: device) else { return }
        read([code], by: device, now: now, into: &actions)
    }

    /// The provider took a list of missed calls. The pushes of these calls, and older lists, count as read: the list says it
    /// all again.
    mutating func listAccepted(
        _ code: PushCode, _ calls: [CallRef], by device: DeviceID, now: Moment, into actions: inout [ProxyAction]
    ) {
        read(unread.listAccepted(code, of: calls, by: device), by: device, now: now, into: &actions)
    }

    /// These pushes count as read: in their records, or in their rows where those are written already.
    private mutating func read(
        _ codes: [PushCode], by device: DeviceID, now: Moment, into actions: inout [ProxyAction]
    ) {
        guard timeline.isOn else { return }
        var written: [PushCode] = []
        for code in codes where !timeline.marked(code, of: device, .read, at: now.date) {
            written.append(code)
        }
        if !written.isEmpty { actions.append(.trace([.pushesRead(written, device: device, at: now.date)])) }
    }
}
