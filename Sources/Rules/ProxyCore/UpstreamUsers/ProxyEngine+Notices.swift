import Addressing
import Bytes
import Calling
import LocationService
import Messaging
import Registration
import Routing
import SIPGrammar
import Telemetry
import Timekeeping

/// Delivers NOTIFYs that a PBX sends to users without a subscription, for example with the number of voice messages.
extension ProxyEngine {
    /// Sends a NOTIFY of a PBX to phones that are awake. If the phones sleep, the PBX gets 200, and the latest NOTIFY
    /// of each event package waits in the store until a phone registers.
    func noticeReceived(
        _ incoming: IncomingRequest, to aor: AddressOfRecord, _ targets: [ForkTarget], caller: Caller, now: Moment
    ) {
        let event = MessageWords.event(of: incoming.request)
        for old in messages.queue(of: aor.compacted()) where old.event == event && old.isNotice {
            // The PBX must not send an older NOTIFY again.
            answer(old, .ok, [], now: now)
            if old.keeping == .passing { forget(old, now: now) }
        }
        messageReceived(incoming, to: aor, targets, caller: caller, isNotice: true, now: now)
    }

    /// Drops the stored NOTIFYs of the same event that are older than this one, which is now in the store or at all
    /// phones. An older NOTIFY stays in the store until then, so that a crash loses no NOTIFY.
    func dropNotices(olderThan notice: HeldMessage, now: Moment) {
        guard notice.isNotice else { return }
        for old in messages.queue(of: notice.aor)
        where old.isNotice && old.event == notice.event && old.id < notice.id && old.keeping != .passing {
            act(.record([.message(.delete(old.id))]))
            forget(old, now: now)
        }
    }
}
