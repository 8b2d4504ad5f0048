import HTTPServer
package import HTTPServices
package import Persistence
import ProxyCore
package import ProxyRuntime
import PushDelivery
package import PushPlanning
package import Reactor
import Telemetry
import Timekeeping

/// Keeps the times of calls in memory: each second of the last hour, and each minute of the last day.
///
/// The times of calls come from complete timeline records and from the histogram of commits. To note a timeline record,
/// the recorder needs only a few additions.
///
/// - The class is `@unchecked Sendable`, because only the event loop of the shard uses it.
package final class PlotRecorder: @unchecked Sendable {
    private let door: ShardDoor
    private let store: any ProxyStore
    private let loop: EventLoop
    private var timer: LoopTimer?
    private var hour = PlotRing(step: 1, capacity: 3600)
    private var day = PlotRing(step: 60, capacity: 1440)
    private var woken = WakeShares()
    private var second = PlotTimes()
    private var minute = PlotTimes()
    /// The highest number of calls that waited or rang together in the present minute.
    private var heldInMinute = 0
    private var lastMinute: Int64?
    /// The histogram of commits at the last second.
    private var commits = Histogram()

    package init(door: ShardDoor, store: any ProxyStore, loop: EventLoop) {
        (self.door, self.store, self.loop) = (door, store, loop)
    }

    package func start() throws(SystemError) {
        commits = store.figures[.storeCommit]
        timer = try LoopTimer(on: loop) { [weak self] in
            guard let self else { return }
            timer?.arm(at: loop.now + .seconds(1))
            loop.startTask { [self] _ in await secondIsOver() }
        }
        timer?.arm(at: loop.now + .seconds(1))
    }

    /// Notes the times in complete timeline records. The method is called for each change of the timeline.
    package func traced(_ changes: [TimelineChange]) {
        let now = loop.moment.date.seconds
        for case .record(let record) in changes {
            second.add(record)
            woken.add(record, at: now)
        }
    }

    private func secondIsOver() async {
        let held = await door.ask(.everything) { engine, _ in engine.heldCallCount }
        ended(loop.moment.date.seconds, held: held, commits: store.figures[.storeCommit])
    }

    /// Adds the values of the second that has ended.
    func ended(_ seconds: Int64, held: Int, commits: Histogram) {
        second.merge(commits.since(self.commits), into: .commit)
        self.commits = commits
        woken.advance(to: seconds)
        if let last = lastMinute, seconds / 60 != last {
            day.add(held: heldInMinute, minute, at: last * 60)
            (minute, heldInMinute) = (PlotTimes(), 0)
        }
        lastMinute = seconds / 60
        hour.add(held: held, second, at: seconds)
        minute.merge(second)
        heldInMinute = max(heldInMinute, held)
        second = PlotTimes()
    }

    // MARK: The route

    package func register(in router: inout ServiceRouter) {
        router.add("GET", "/v1/plots", domains: .wholeDaemon, .plots) { [self] call throws(ServiceProblem) in
            let isDay: Bool
            switch call.request.query("span") {
            case nil, "hour": isDay = false
            case "day": isDay = true
            default: throw ServiceProblem(400, "span is hour or day")
            }
            let (ring, shares) = (isDay ? day : hour, woken.totals(of: isDay ? WakeShares.minutes : 60))
            // Thousands of numbers are written on another thread, so that no call waits.
            Task {
                call.answer(
                    HTTPResponse(
                        type: "application/json", body: Self.bytes(isDay ? "day" : "hour", ring, shares)))
            }
        }
    }

    static func bytes(
        _ span: String, _ ring: PlotRing, _ shares: [(provider: PushProvider, counts: WakeShares.Counts)]
    ) -> [UInt8] {
        var out = Array(
            "{\"span\":\"\(span)\",\"step\":\(ring.step),\"from\":\(ring.from),\"until\":\(ring.until),".utf8)
        out += "\"series\":".utf8
        ring.write(into: &out)
        out += ",\"woken\":[".utf8
        for (index, (provider, counts)) in shares.enumerated() {
            out += "\(index == 0 ? "" : ","){\"provider\":\"\(provider.rawValue)\",\"pushes\":\(counts.pushes),".utf8
            out +=
                "\"within5\":\(counts.within5),\"within10\":\(counts.within10),\"within30\":\(counts.within30)}".utf8
        }
        out += "]}".utf8
        return out
    }
}

extension RouteDescription {
    /// A number for each interval, or null for an interval without a value.
    private static let values = JSONSchema.list(of: .anything)
    private static let quantiles = JSONSchema.object(["p50": values, "p95": values, "p99": values])

    fileprivate static let plots = RouteDescription(
        "getPlots", "The times of calls in the last hour or day",
        detail: "The daemon keeps the values in memory since its start. A call counts when its records are complete."
    )
    .query("span", "`hour`: each second. `day`: each minute. Default: `hour`.", .choice(["hour", "day"]))
    .answer(
        200, "The values, oldest first. Times are in milliseconds.",
        .object([
            "span": .choice(["hour", "day"]), "step": .number.described("The length of an interval in seconds."),
            "from": .number.described("The first interval, in Unix seconds."),
            "until": .number.described("The last interval, in Unix seconds."),
            "series": .object([
                "held": .list(of: .number), "inviteToPush": quantiles, "pushToRegister": quantiles,
                "registerToAnswer": quantiles, "commit": quantiles,
            ]),
            "woken": .list(
                of: .object([
                    "provider": .text, "pushes": .number, "within5": .number, "within10": .number,
                    "within30": .number,
                ])),
        ]))
}
