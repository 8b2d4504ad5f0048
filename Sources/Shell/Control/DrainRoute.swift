import HTTPServices

/// Ends the daemon when its calls have ended: `sippushd drain`.
struct DrainRoute {
    let drain: @Sendable (Duration) async -> Int

    func register(in router: inout ServiceRouter) {
        router.add("POST", "/v1/drain", scope: .admin, described: .drain) { [drain] call throws(ServiceProblem) in
            call.changes("the daemon")
            let seconds = try call.number("within", in: Self.times) ?? Self.usualTime
            call.changes("the daemon, within \(seconds) s")
            call.answer(DrainReport(calls: await drain(.seconds(seconds))))
        }
    }

    static let times: ClosedRange<Int64> = 0...86_400
    static let usualTime: Int64 = 30
}

/// How many calls waited or rang when a drain began.
package struct DrainReport: Codable, Sendable {
    package var calls: Int
}

extension RouteDescription {
    fileprivate static let drain = RouteDescription(
        "drain", "End the daemon when its calls have ended",
        detail: "INVITEs for new calls get 503 from now on, and `/readyz` says so; all else is served until the end."
    ).query("within", "Seconds after which it ends in any case; 30 without it.", .number(DrainRoute.times))
        .answer(200, "It has begun; how many calls wait or ring", DrainReport.self)
}
