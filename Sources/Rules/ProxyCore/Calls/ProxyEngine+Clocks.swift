import Addressing
import PushDelivery
import Registration
import SIPGrammar
import Telemetry
import Timekeeping

/// The clocks of a call: how long it waits for a device, and how long for any response.
extension ProxyEngine {
    /// Starts the clock of a call that waits for a device. The ring timeout, lowered by the INVITE's own Expires, counts from
    /// the INVITE; a phone that is lost later still has a little time to come back.
    func armHold(of call: Call, now: Moment) {
        guard call.deadline == .none, let offer = call.offer else { return }
        let end = offer.holdUntil > now.instant ? offer.holdUntil : now.instant + Self.returnTime
        call.deadline = timers.schedule(.holdDeadline(place: call.place), at: end)
    }

    static let returnTime: Duration = .seconds(10)

    func holdTime(of request: SIPRequest) -> Duration {
        guard let expires = request.expires else { return settings.call.ringTimeout }
        return min(settings.call.ringTimeout, .seconds(Int64(expires)))
    }

    /// How long a phone may take to say anything before its flow is thought dead, or the phone asleep.
    static let patience: Duration = .seconds(3)

    func armSilence(of call: Call, now: Moment) {
        _ = timers.schedule(.silence(place: call.place, call.id), at: now.instant + Self.patience)
    }
}
