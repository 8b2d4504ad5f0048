import Bytes
import HTTPServer
import ProxyCore
import PushDelivery
import Reactor
import Storage
import Timekeeping

/// Tells application servers what became of pushes. The store is read on a thread of its own.
///
/// Lives on the shard's loop.
final class StatisticsRoutes: Sendable {
    private let shard: ProxyShard
    private let queries: StoreQueries
    private let codes: DeviceCodes

    /// A push goes to no more devices than that.
    private static let deviceLimit = 1000

    init(shard: ProxyShard, queries: StoreQueries, codes: DeviceCodes) {
        self.shard = shard
        self.queries = queries
        self.codes = codes
    }

    func register(in router: inout ServiceRouter) {
        router.add("GET", "/v1/push-statistics", scope: .lifecycle, described: .statistics(isByPush: false)) {
            [self] call throws(ServiceProblem) in
            try answer(call, try PushStatistics(call))
        }
        router.add("GET", "/v1/pushes/{}", scope: .lifecycle, described: .push) { [self] call throws(ServiceProblem) in
            try report(call)
        }
        // Pushes are not made here; who tries is told what can be done instead.
        for end in ["/", ""] {
            let pushes = "/api/v1/pushes" + end
            router.add(
                "GET", pushes, scope: .lifecycle, schemes: .bearerOrToken, described: .statistics(isByPush: true)
            ) {
                [self] call throws(ServiceProblem) in
                var asked = try PushStatistics(call)
                asked.by = .push
                try answer(call, asked)
            }
            for method in ["GET", "DELETE"] {
                router.add(method, "/api/v1/pushes/all_read" + end, scope: nil, described: .leftOut) {
                    call throws(ServiceProblem) in
                    call.answer(
                        ServiceProblem(405, "no such method here").response(fields: [
                            HTTPField("Allow", "PATCH, PUT, POST")
                        ]))
                }
            }
            router.add(
                "GET", "/api/v1/pushes/{}" + end, scope: .lifecycle, schemes: .bearerOrToken, described: .push
            ) { [self] call throws(ServiceProblem) in
                try report(call)
            }
        }
    }

    private func answer(_ call: ServiceCall, _ asked: PushStatistics) throws(ServiceProblem) {
        let isTaken = queries.run { connection throws(SQLError) in
            call.answer(asked.response(try connection.statistics(asked)))
        } failed: {
            call.answer(.notRead)
        }
        if !isTaken { throw .notRead }
    }

    // MARK: One push

    private func report(_ call: ServiceCall) throws(ServiceProblem) {
        guard let code = PushCode(call.parameter().lowercased()) else { throw .noSuchPush }
        let live = shard.assumeIsolated { shard in
            shard.withEngine { engine, _ in engine.timeline.underWay { $0.code == code } }
        }
        let isTaken = queries.run { [self] connection throws(SQLError) in
            let records = try connection.timeline(of: code, limit: Self.deviceLimit) + live
            shard.loop.post { [self] in
                // A record may have been written in between.
                var seen = Set<UInt64>()
                let report = PushReport(records.filter { seen.insert($0.device).inserted }) { codes.code(of: $0) }
                if let report { call.answer(report) } else { call.answer(.noSuchPush) }
            }
        } failed: {
            call.answer(.notRead)
        }
        if !isTaken { throw .notRead }
    }
}
