import Addressing
import Bytes
import HTTPSemantics
import HTTPServer
import Persistence
import ProxyCore
import ProxyRuntime
import PushDelivery
import Reactor
import Timekeeping

/// The HTTP routes by which application servers read the outcomes of pushes.
///
/// Only the event loop of the shard uses the HTTP routes for outcomes.
final class StatisticsRoutes: Sendable {
    private let door: ShardDoor
    private let loop: EventLoop
    private let store: any ProxyStore
    private let codes: DeviceCodes

    /// The maximum number of records that are read for one push, because no push has more than 1,000 devices.
    private static let deviceLimit = 1000

    init(door: ShardDoor, loop: EventLoop, store: any ProxyStore, codes: DeviceCodes) {
        self.door = door
        self.loop = loop
        self.store = store
        self.codes = codes
    }

    /// Adds the route by which operators read the figures.
    func registerForOperators(in router: inout ServiceRouter) {
        let path = "/v1/reports/pushes"
        router.add("GET", path, scope: .adminRead, domains: .byDomain, described: .statistics(isByPush: false)) {
            [self] call throws(ServiceProblem) in
            var asked = try PushStatistics(call)
            asked.path = path
            answer(call, asked)
        }
    }

    func register(in router: inout ServiceRouter) {
        router.add(
            "GET", "/v1/push-statistics", scope: .lifecycle, domains: .byDomain, described: .statistics(isByPush: false)
        ) { [self] call throws(ServiceProblem) in
            answer(call, try PushStatistics(call))
        }
        router.add("GET", "/v1/pushes/{}", scope: .lifecycle, domains: .byDomain, described: .push) {
            [self] call throws(ServiceProblem) in
            try await report(call)
        }
        // The paths under `/api/v1/pushes` refuse requests to create a push. A request with another method than GET
        // gets an answer with the allowed methods.
        for end in ["/", ""] {
            let pushes = "/api/v1/pushes" + end
            router.add(
                "GET", pushes, scope: .lifecycle, domains: .byDomain, schemes: .bearerOrToken,
                described: .statistics(isByPush: true)
            ) {
                [self] call throws(ServiceProblem) in
                var asked = try PushStatistics(call)
                asked.question.by = .push
                answer(call, asked)
            }
            for method in ["GET", "DELETE"] {
                router.add(
                    method, "/api/v1/pushes/all_read" + end, scope: nil, domains: .open, isChange: false,
                    described: .leftOut
                ) { call throws(ServiceProblem) in
                    call.answer(
                        ServiceProblem(405, "the path does not support this method").response(fields: [
                            HTTPField("Allow", "PATCH, PUT, POST")
                        ]))
                }
            }
            router.add(
                "GET", "/api/v1/pushes/{}" + end, scope: .lifecycle, domains: .byDomain, schemes: .bearerOrToken,
                described: .push
            ) { [self] call throws(ServiceProblem) in
                try await report(call)
            }
        }
    }

    private func answer(_ call: ServiceCall, _ asked: PushStatistics) {
        call.askStore { [store] in call.answer(asked.response(try await store.statistics(asked.question))) }
    }

    // MARK: One push

    private func report(_ call: ServiceCall) async throws(ServiceProblem) {
        guard let code = PushCode(call.parameter().lowercased()) else { throw .noSuchPush }
        let domains = call.domains
        let live = await door.ask(.everything) { engine, _ in
            engine.timeline.underWay { $0.code == code && domains.permits($0.host) }
        }
        call.askStore { [self] in
            let records =
                try await store.timeline(of: [.push(code)], limit: Self.deviceLimit, in: domains.hosts) + live
            // The loop computes the device codes, because only the loop's thread may use ``DeviceCodes``.
            loop.post { [self] in
                // A record that was written between the two queries is in both results, but must be counted only once.
                var seen = Set<DeviceID>()
                let report = PushReport(records.filter { seen.insert($0.device).inserted }) { codes.code(of: $0) }
                if let report { call.answer(report) } else { call.answer(.noSuchPush) }
            }
        }
    }
}
