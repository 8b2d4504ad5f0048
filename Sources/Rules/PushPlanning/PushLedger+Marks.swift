package import Addressing
package import Calling
package import PushDelivery
package import Timekeeping

/// Handles reports about pushes, for example that the user has read a push. Most reports come from apps; some facts
/// come from SIP messages.
extension PushLedger {
    /// Notes an app's report about a push; repeated and late reports have no effect.
    ///
    /// - Returns: true if the timeline record of the push is open. If the result is false, the report belongs into the
    ///   stored record of the push.
    package mutating func marked(_ code: PushCode, _ mark: PushMark, by device: DeviceID, at date: UnixTime) -> Bool {
        if mark == .read { unread.ended(code, of: device) }
        return timeline.marked(code, of: device, mark, at: date)
    }

    /// Notes an app's report that its user has read all pushes.
    package mutating func allRead(by device: DeviceID, at date: UnixTime) {
        for code in unread.allRead(by: device) {
            _ = timeline.marked(code, of: device, .read, at: date)
        }
    }

    /// Removes an answered call from the badges of all phones.
    package mutating func answered(_ call: ProxiedRequest, now: Moment, into actions: inout some PushOrders) {
        guard let userCall = call.userCall, unread.count > 0 else { return }
        for branch in call.fork.branches {
            if let device = branch.device { callIsNoNews(userCall.ref, for: device, now: now, into: &actions) }
        }
    }

    /// Removes the push about a call from the badge of the device.
    package mutating func callIsNoNews(
        _ call: CallRef, for device: DeviceID, now: Moment, into actions: inout some PushOrders
    ) {
        guard let code = unread.callIsNoNews(call, of: device) else { return }
        read([code], by: device, now: now, into: &actions)
    }

    /// Notes that the push provider has accepted a list of missed calls.
    ///
    /// Earlier pushes about the listed calls are treated as read, because the new list repeats the calls.
    package mutating func listAccepted(
        _ code: PushCode, _ calls: [CallRef], by device: DeviceID, now: Moment, into actions: inout some PushOrders
    ) {
        read(unread.listAccepted(code, of: calls, by: device), by: device, now: now, into: &actions)
    }

    /// Marks pushes as read, in open timeline records or, if a record is already stored, in the store.
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
