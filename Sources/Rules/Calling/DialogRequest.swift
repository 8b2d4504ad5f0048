package import Addressing
package import Routing
package import SIPDialogs
package import Timekeeping

/// A request inside a dialog to a phone that a push can wake.
package final class DialogRequest {
    package let pass: DialogPass
    package let next: RouteSet.Next
    package let device: DeviceID
    /// The caller whose rate limits apply to the request.
    package let caller: Caller
    package let isBye: Bool
    /// Whether the request has caused a push to the phone.
    package private(set) var hasWoken = false
    /// For a request from before the restart, the instant at which its wait for the phone ends.
    package private(set) var waitsUntil: Instant?

    package init(_ pass: DialogPass, _ next: RouteSet.Next, to device: DeviceID, from caller: Caller, isBye: Bool) {
        self.caller = caller
        self.isBye = isBye
        self.pass = pass
        self.next = next
        self.device = device
    }

    /// Notes that the request has caused a push to the phone.
    package func wokePhone() { hasWoken = true }

    /// Sets the end of the wait for the phone, for a request that waited before the daemon restarted.
    package func waits(until end: Instant) { waitsUntil = end }
}
