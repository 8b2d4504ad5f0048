package import Addressing
package import Calling
package import PushDelivery
package import Timekeeping

/// Marks on pushes, such as read. Apps report them, and sometimes SIP shows them.
extension PushLedger {
    /// An app reports a mark for a push. A report that comes twice, or out of order, changes nothing.
    ///
    /// - Returns: true if the push's record is open. If false, the caller must mark the stored row, if it exists.
    package mutating func marked(_ code: PushCode, _ mark: PushMark, by device: DeviceID, at date: UnixTime) -> Bool {
        if mark == .read { unread.ended(code, of: device) }
        return timeline.marked(code, of: device, mark, at: date)
    }

    /// An app reports that its user has read all pushes.
    package mutating func allRead(by device: DeviceID, at date: UnixTime) {
        for code in unread.allRead(by: device) {
            _ = timeline.marked(code, of: device, .read, at: date)
        }
    }

    /// The call was answered, so its pushes no longer count in the badge of any phone.
    package mutating func answered(_ call: ProxiedRequest, now: Moment, into actions: inout some PushOrders) {
        guard let userCall = call.userCall, unread.count > 0 else { return }
        for branch in call.fork.branches {
            if let device = branch.device { callIsNoNews(userCall.ref, for: device, now: now, into: &actions) }
        }
    }

    /// The device's push about the call no longer counts in the badge.
    package mutating func callIsNoNews(
        _ call: CallRef, for device: DeviceID, now: Moment, into actions: inout some PushOrders
    ) {
        guard let code = unread.callIsNoNews(call, of: device) else { return }
        read([code], by: device, now: now, into: &actions)
    }

    /// The provider accepted a list of missed calls. The pushes of these calls and older lists now count as read,
    /// because the new list repeats them.
    package mutating func listAccepted(
        _ code: PushCode, _ calls: [CallRef], by device: DeviceID, now: Moment, into actions: inout some PushOrders
    ) {
        read(unread.listAccepted(code, of: calls, by: device), by: device, now: now, into: &actions)
    }

    /// Marks these pushes as read, in their open records, or in their rows if the records are already written.
    private mutating func read(
        _ codes: [PushCode], by device: DeviceID, now: Moment, into actions: inout some PushOrders
    ) {
        guard timeline.isOn else { return }
        var written: [PushCode] = []
        for code in codes where !timeline.marked(code, of: device, .read, at: now.date) {
            written.append(code)
        }
        if !written.isEmpty { actions.trace([.pushesRead(written, device: device, at: now.date)]) }
    }
}
