import ProxyCore
import PushDelivery
import Telemetry
import Timekeeping

/// The counters from which the live view computes rates.
struct LiveCounts: Sendable {
    var registers: UInt64 = 0
    var invites: UInt64 = 0
    var pushes: UInt64 = 0
    var woken: UInt64 = 0
    var at = Instant.distantPast

    init(_ engine: ProxyEngine, _ reports: [(app: PushApp, report: PushAppReport)], at now: Instant) {
        let figures = engine.figures
        registers = figures[.requestRegister]
        invites = figures[.requestInvite]
        pushes = reports.reduce(0) { $0 &+ UInt64(clamping: $1.report.sent) }
        woken = figures[.heldDelivered]
        at = now
    }

    /// The rates since earlier counters; zero without earlier counters.
    func rates(since earlier: LiveCounts?) -> LiveSnapshot.Rates {
        guard let earlier else { return LiveSnapshot.Rates(registers: 0, invites: 0, pushes: 0, woken: 0) }
        let milliseconds = max(1, (at - earlier.at).nanoseconds / 1_000_000)
        func rate(_ new: UInt64, _ old: UInt64) -> Int {
            let (product, overflows) = (new &- min(new, old)).multipliedReportingOverflow(by: 1000)
            return overflows ? .max : Int(clamping: (product &+ UInt64(milliseconds) / 2) / UInt64(milliseconds))
        }
        return LiveSnapshot.Rates(
            registers: rate(registers, earlier.registers), invites: rate(invites, earlier.invites),
            pushes: rate(pushes, earlier.pushes), woken: rate(woken, earlier.woken))
    }
}
