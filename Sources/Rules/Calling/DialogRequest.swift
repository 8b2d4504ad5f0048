package import Addressing
package import Routing
package import SIPDialogs
package import Timekeeping

/// A request inside a dialog to a phone that a push can wake.
package final class DialogRequest {
    package let pass: DialogPass
    package let next: RouteSet.Next
    package let device: DeviceID
    /// The caller to whose share of the limits the request counts.
    package let caller: Caller
    package let isBye: Bool
    /// Whether the phone was woken for this request.
    package private(set) var hasWoken = false
    /// The time at which the wait ends, if it began in an earlier run of the program.
    package private(set) var waitsUntil: Instant?

    package init(_ pass: DialogPass, _ next: RouteSet.Next, to device: DeviceID, from caller: Caller, isBye: Bool) {
        self.caller = caller
        self.isBye = isBye
        self.pass = pass
        self.next = next
        self.device = device
    }

    /// Notes that a push was sent to the phone for this request.
    package func wokePhone() { hasWoken = true }

    /// Sets the end of the wait, which began in an earlier run.
    package func waits(until end: Instant) { waitsUntil = end }
}
