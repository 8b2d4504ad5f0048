import HTTPServer
import HTTPServices
import ProxyRuntime
import Reactor

/// The HTTP routes of `sippushd trace` and `sippushd top`. Only the control socket has routes for traces, because
/// traces show messages.
struct TraceRoutes {
    let taps: MessageTaps
    let loop: EventLoop

    func register(in router: inout ServiceRouter) {
        router.add("POST", "/v1/traces", scope: .admin, domains: .wholeDaemon) {
            [taps, loop] call throws(ServiceProblem) in
            let wish = try call.body(as: TraceRequest.self, expected: "user, seconds and keepsText")
            guard !wish.user.isEmpty, Self.times.contains(wish.seconds) else {
                throw ServiceProblem(400, "expected a user, and 1 to \(Self.times.upperBound) seconds")
            }
            call.changes("the trace of \(wish.user)")
            let number = taps.watch(
                wish.user, keepsText: wish.keepsText, for: .seconds(wish.seconds), now: loop.now)
            guard let number else { throw ServiceProblem(409, "too many traces are running") }
            call.answer(TraceNumber(number: number))
        }
        router.add("GET", "/v1/traces/{}", scope: .admin, domains: .wholeDaemon) {
            [taps, loop] call throws(ServiceProblem) in
            guard let number = UInt64(call.parameter()), let report = taps.look(at: number, now: loop.now) else {
                throw ServiceProblem(404, "no such trace")
            }
            call.answer(report)
        }
        router.add("GET", "/v1/top", scope: .admin, domains: .wholeDaemon) { [taps, loop] call throws(ServiceProblem) in
            call.answer(taps.slowPushes(now: loop.now))
        }
    }

    static let times: ClosedRange<Int64> = 1...86_400
}

/// The user whose messages an operator traces, and for how long.
package struct TraceRequest: Codable, Sendable {
    package var user: String
    package var seconds: Int64
    package var keepsText: Bool

    package init(user: String, seconds: Int64, keepsText: Bool) {
        (self.user, self.seconds, self.keepsText) = (user, seconds, keepsText)
    }
}

/// The number of a new trace (`sippushd trace`).
package struct TraceNumber: Codable, Sendable {
    package var number: UInt64
}
