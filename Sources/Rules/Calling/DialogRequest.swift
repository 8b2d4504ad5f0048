package import Addressing
package import Routing
package import SIPDialogs
package import Timekeeping

/// A request inside a dialog to a phone that a push can wake.
package final class DialogRequest {
    package let pass: DialogPass
    package let next: RouteSet.Next
    package let device: DeviceID
    /// The caller whose limits apply to the request.
    package let caller: Caller
    package let isBye: Bool
    /// Whether a push was sent to the phone because of the request.
    package private(set) var hasWoken = false
    /// The time at which the request's wait for its phone ends, if the wait began in the daemon's earlier run.
    package private(set) var waitsUntil: Instant?

    package init(_ pass: DialogPass, _ next: RouteSet.Next, to device: DeviceID, from caller: Caller, isBye: Bool) {
        self.caller = caller
        self.isBye = isBye
        self.pass = pass
        self.next = next
        self.device = device
    }

    /// Notes that a push was sent to the phone because of the request.
    package func wokePhone() { hasWoken = true }

    /// Sets the time at which the request's wait for its phone ends, because the wait began in the daemon's earlier
    /// run.
    package func waits(until end: Instant) { waitsUntil = end }
}
