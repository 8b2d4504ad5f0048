import Addressing
import PushDelivery
import Registration
import SIPGrammar
import Telemetry
import Timekeeping

/// The timers of a call: how long it waits for a device, and how long for the first response.
extension ProxyEngine {
    /// Starts the timer of a call that waits for a device. The ring timeout counts from the INVITE, and the INVITE's
    /// Expires may shorten it. A phone that is lost after that time still gets ten seconds to come back.
    func armHold(of call: ProxiedRequest, now: Moment) {
        guard call.deadline == .none, let userCall = call.userCall else { return }
        let end = userCall.holdUntil > now.instant ? userCall.holdUntil : now.instant + Self.returnTime
        call.deadline = timers.schedule(.holdDeadline(place: call.place), at: end)
    }

    static let returnTime: Duration = .seconds(10)

    func holdTime(of request: SIPRequest) -> Duration {
        guard let expires = request.expires else { return settings.call.ringTimeout }
        return min(settings.call.ringTimeout, .seconds(Int64(expires)))
    }

    /// After this time without any response, a flow is taken for dead, or the phone for asleep.
    static let patience: Duration = .seconds(3)

    func armSilence(of call: ProxiedRequest, now: Moment) {
        _ = timers.schedule(.silence(place: call.place, call.id), at: now.instant + Self.patience)
    }
}
