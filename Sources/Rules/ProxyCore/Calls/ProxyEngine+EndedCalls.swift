import Addressing
import Bytes
import PushDelivery
import Registration
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping

/// Ended calls that are kept for phones that were woken for them and have not registered yet.
extension ProxyEngine {
    /// How the phone with that token learns of a call that is over.
    func afterEnd(of token: PushToken) -> AfterEnd {
        ledger.dispatcher.directory.afterEnd(of: token)
    }

    /// The call is over. If pushed phones have not registered yet, the call is kept for them for one minute, within the
    /// limit of held bytes.
    func rememberEnded(_ call: ProxiedRequest, now: Moment) {
        guard let userCall = call.userCall, !call.request.isEmpty,
            calls.bytes + call.request.count <= settings.limits.heldBytes
        else { return }
        var reasons: [DeviceID: [ByteString]] = [:]
        var rings: [DeviceID: [ClientTransactionID]] = [:]
        for branch in call.fork.branches where branch.isEnded {
            guard let end = branch.end, end != .succeeded, let device = branch.addressee else { continue }
            let lost = branch.former.filter { transactions.wasLost($0) }
            if !lost.isEmpty {
                rings[device] = lost
            } else if branch.routeHash != nil || !branch.wasPushed
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
        let ended = EndedCall(
            userCall: userCall, request: request, source: call.source, until: now.instant + Self.afterEndTime,
            reasons: reasons, rings: rings)
        calls.ended.append(ended)
        wakes.waits(ended)
        for device in reasons.keys {
            if let target = registrar.bindings.forkTarget(device, now: now.instant) { watch(target) }
        }
    }

    static let afterEndTime: Duration = .seconds(60)

    func endedCallDue(now: Moment) {
        while let end = calls.ended.nextEnd, end <= now.instant { dropOldestEnded() }
        if let end = calls.ended.nextEnd { _ = timers.schedule(.endedCallDue, at: end) }
    }

    /// Forgets ended calls, the oldest first, until a new request of this size has room.
    func makeRoom(for size: Int) {
        while calls.bytes + size > settings.limits.heldBytes, !calls.ended.isEmpty { dropOldestEnded() }
    }

    func dropOldestEnded() {
        if let ended = calls.ended.dropOldest() { wakes.noLongerWaits(ended) }
    }
}
