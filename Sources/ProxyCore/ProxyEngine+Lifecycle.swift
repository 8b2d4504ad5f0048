package import Addressing
package import PushDelivery
import Registration
package import Timekeeping

/// What became of pushes on their devices: apps say it, and sometimes SIP shows it.
extension ProxyEngine {
    /// Where what an app said has its place.
    package enum MarkPlace: Hashable, Sendable {
        /// Nobody of ours.
        case unknownDevice
        /// In the record, which is under way; it goes to the store as a whole.
        case record
        /// The push is over: in its row, if there is one.
        case row
    }

    /// An app says something of a push; again, or out of order, changes nothing.
    package func pushMarked(_ code: PushCode, _ mark: PushMark, by device: DeviceID, now: Moment) -> MarkPlace {
        guard bindings.binding(device) != nil else { return .unknownDevice }
        if mark == .read { unread.ended(code, of: device) }
        return timeline.marked(code, of: device, mark, at: now.date) ? .record : .row
    }

    /// An app says that its user has read everything; the rows have to hear of it too.
    ///
    /// - Returns: false for a device that is none of ours.
    package func allPushesRead(by device: DeviceID, now: Moment) -> Bool {
        guard bindings.binding(device) != nil else { return false }
        for code in unread.allRead(by: device) {
            _ = timeline.marked(code, of: device, .read, at: now.date)
        }
        return true
    }

    /// Takes a push from the store at start-up, in the order in which they were sent, after the bindings.
    package func restoreUnread(_ code: PushCode, _ matter: UnreadPushes.Matter, of device: DeviceID, at date: UnixTime)
    {
        guard bindings.binding(device) != nil else { return }
        _ = unread.asked(code, matter, by: device, at: date)
    }

    // MARK: What SIP shows

    /// Somebody has the call: the pushes that told of it are old news on all phones.
    func callRead(_ context: ForkContext, now: Moment) {
        guard let call = context.call, unread.count > 0 else { return }
        for branch in context.fork.branches {
            if let device = branch.device { callSettled(call.ref, for: device, now: now) }
        }
    }

    /// The device's push that told of the call counts no more.
    func callSettled(_ call: CallRef, for device: DeviceID, now: Moment) {
        guard let code = unread.settled(call, of: device) else { return }
        if !noted(code, by: device, now: now) { tellRows([code], of: device, now: now) }
    }

    /// The list says again what the pushes of its calls and older lists said.
    func listAccepted(_ code: PushCode, _ calls: [CallRef], by device: DeviceID, now: Moment) {
        let old = unread.listAccepted(code, of: calls, by: device)
        tellRows(old.filter { !noted($0, by: device, now: now) }, of: device, now: now)
    }

    /// Whether the record of the push is under way, and now says that it was read.
    private func noted(_ code: PushCode, by device: DeviceID, now: Moment) -> Bool {
        timeline.marked(code, of: device, .read, at: now.date)
    }

    private func tellRows(_ codes: [PushCode], of device: DeviceID, now: Moment) {
        guard timeline.isOn, !codes.isEmpty else { return }
        act(.trace([.pushesRead(codes, device: device, at: now.date)]))
    }
}
