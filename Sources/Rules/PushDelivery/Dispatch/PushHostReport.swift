/// The push statistics of one host that phones chose, since the daemon began to remember the host.
package struct PushHostReport: Hashable, Sendable {
    /// The host, and the port if it is not the standard port of HTTPS.
    package let host: String
    package let accepted: Int
    package let failed: Int
    /// The number of answers with the status 429.
    package let limited: Int
    package let queued: Int
    package let inFlight: Int
    /// Whether the daemon sends requests to the host, because the host's circuit breaker is closed.
    package let isReachable: Bool
    /// The reason why the last push did not reach the host; `nil` once the host has answered again.
    package let problem: String?
    /// The reason why the host last refused the daemon's VAPID key, or why no connection was possible; `nil` after the
    /// next accepted push.
    package let refusal: String?

    /// The maximum number of hosts in a report. Anybody can choose hosts, so operators and metrics see the busiest hosts
    /// only (T46.7).
    package static let limit = 16

    init(_ host: String, _ report: PushAppReport, _ queue: PushQueue, queued: Int) {
        self.host = host
        accepted = report.accepted
        failed = report.failed
        limited = report.limited
        self.queued = queued
        inFlight = queue.inFlight
        isReachable = !queue.breaker.isOpen
        problem = report.problem
        refusal = report.refusal
    }
}
