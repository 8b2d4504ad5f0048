import HTTPServices

/// The HTTP route of `sippushd drain`, which stops the daemon after its calls have ended.
struct DrainRoute {
    let drain: @Sendable (Duration) async -> Int

    func register(in router: inout ServiceRouter) {
        router.add("POST", "/v1/drain", domains: .wholeDaemon, .drain) { [drain] call throws(ServiceProblem) in
            call.changes("the daemon")
            let seconds = try call.number("within", in: Self.times) ?? Self.usualTime
            call.changes("the daemon, within \(seconds) s")
            call.answer(DrainReport(calls: await drain(.seconds(seconds))))
        }
    }

    static let times: ClosedRange<Int64> = 0...86_400
    static let usualTime: Int64 = 30
}

/// The number of calls that waited or rang when the drain began.
package struct DrainReport: Codable, Sendable {
    package var calls: Int
}

extension RouteDescription {
    fileprivate static let drain = RouteDescription(
        "drain", "Stop the daemon when its calls have ended",
        detail: "From now on new calls get 503, and `/readyz` answers 503. Other requests are served until the end."
    ).query(
        "within",
        "The number of seconds after which the daemon stops even if calls still wait or ring. The default is 30.",
        .number(DrainRoute.times)
    )
    .answer(200, "The drain has begun; the number of calls that wait or ring", DrainReport.self)
}
