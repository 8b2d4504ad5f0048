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

/// NOTIFYs that a PBX sends to a token without a subscription, such as the number of voice messages.
extension ProxyEngine {
    /// A phone that is awake gets the NOTIFY. For phones that sleep, the PBX gets 200, and the latest NOTIFY of each event
    /// waits in the store until the phone registers.
    func noticeReceived(
        _ incoming: IncomingRequest, to aor: AddressOfRecord, _ targets: [ForkTarget], caller: Caller, now: Moment
    ) {
        let event = MessageWords.event(of: incoming.request)
        for old in messages.queue(of: aor.compacted()) where old.event == event && old.isNotice {
            answer(old, .ok, [], now: now)
            act(.record([.message(.delete(old.id))]))
            forget(old, now: now)
        }
        messageReceived(incoming, to: aor, targets, caller: caller, isNotice: true, now: now)
    }
}
