import Addressing
import Bytes
import PushDelivery
import Registration
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping

/// Calls that are over and kept for phones that were woken for them and have not come.
extension ProxyEngine {
    /// What the phone with that token gets of a call that is over.
    func afterEnd(of token: PushToken) -> AfterEnd {
        ledger.dispatcher.directory.afterEnd(of: token)
    }

    /// The call is over. What phones are to hear of it that were pushed and have not come is kept for a minute, within the
    /// bytes that may be held.
    func rememberEnded(_ call: Call, now: Moment) {
        guard let offer = call.offer, !call.request.isEmpty,
            calls.bytes + call.request.count <= settings.limits.heldBytes
        else { return }
        var reasons: [DeviceID: [ByteString]] = [:]
        var rings: [DeviceID: [ClientTransactionID]] = [:]
        for branch in call.fork.branches where branch.isEnded {
            guard let end = branch.end, end != .succeeded, let device = branch.addressee else { continue }
            let lost = branch.former.filter { transactions.wasLost($0) }
            if !lost.isEmpty {
                rings[device] = lost
            } else if branch.way != nil || !branch.wasPushed
                || registrar.bindings.pushToken(of: device).map({ afterEnd(of: $0) }) != .inviteCancel
            {
                continue
            }
            switch end {
            case .cancelled(let reason): reasons[device] = reason.fields(callerReasons: call.callerReasons)
            case .succeeded, .failed, .gaveUp, .silent: reasons[device] = []
            }
        }
        guard !reasons.isEmpty else { return }
        var request = call.request
        request.compact()
        if calls.ended.isEmpty { _ = timers.schedule(.endedCallDue, at: now.instant + Self.afterEndTime) }
        calls.ended.append(
            EndedCall(
                offer: offer, request: request, source: call.source, until: now.instant + Self.afterEndTime,
                reasons: reasons, rings: rings))
        for device in reasons.keys {
            if let target = registrar.bindings.forkTarget(device, now: now.instant) { watch(target) }
        }
    }

    static let afterEndTime: Duration = .seconds(60)

    func endedCallDue(now: Moment) {
        while let end = calls.ended.nextEnd, end <= now.instant { dropOldestEnded() }
        if let end = calls.ended.nextEnd { _ = timers.schedule(.endedCallDue, at: end) }
    }

    /// Forgets calls that are over, the oldest first, until there is room for a request that is not.
    func makeRoom(for size: Int) {
        while calls.bytes + size > settings.limits.heldBytes, !calls.ended.isEmpty { dropOldestEnded() }
    }

    func dropOldestEnded() {
        guard let idle = calls.ended.dropOldest() else { return }
        for device in idle where calls.devices.calls(of: device).isEmpty { calls.devices.unwatch(device) }
    }
}
