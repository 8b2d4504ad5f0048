import HTTPServer
import ProxyCore
import PushDelivery
import Registration
import SIPGrammar
import Storage
import Timekeeping

/// Answers why a phone was woken or not: what the engine knows now, and what the store remembers.
///
/// Lives on its shard's loop; the store is read on another thread.
final class Explainer: Sendable {
    private let shard: ProxyShard
    private let queries: StoreQueries
    private let settings: TimelineSettings

    static let limits = 1...1000
    static let defaultLimit = 20

    init(shard: ProxyShard, queries: StoreQueries, settings: TimelineSettings) {
        self.shard = shard
        self.queries = queries
        self.settings = settings
    }

    /// Gathers what is known.
    ///
    /// - Parameters:
    ///   - name: `user@domain`, or a Call-ID.
    ///   - limit: records of the store, the last ones.
    ///   - answer: called once, from another thread; with `nil` when the store cannot be read.
    func explain(_ name: String, limit: Int, _ answer: @escaping @Sendable (ExplainReport?) -> Void) {
        let callID = ByteString(name)
        let aor = ControlRoutes.aor(name)
        let settings = settings
        let live = shard.assumeIsolated { shard in
            shard.withEngine { engine, now in Self.live(name, aor, callID, engine, settings, now: now) }
        }
        let limit = max(Self.limits.lowerBound, min(limit, Self.limits.upperBound))
        let isTaken = queries.run(
            { connection throws(SQLError) in
                var report = live
                var records: [TimelineRecord] = []
                if let aor { records = try connection.timeline(of: aor.user, at: aor.host, limit: limit) }
                if records.isEmpty { records = try connection.timeline(ofCall: callID, limit: limit) }
                report.records = records.map { TimelineReport($0) } + report.records
                answer(report)
            }, failed: { answer(nil) })
        if !isTaken { answer(nil) }
    }

    private static func live(
        _ name: String, _ aor: AddressOfRecord?, _ callID: ByteString, _ engine: ProxyEngine,
        _ settings: TimelineSettings, now: Moment
    ) -> ExplainReport {
        let isUser = aor.map { engine.identity.domains.contains($0.host) || engine.bindings.isKnown($0) } ?? false
        var report = ExplainReport(
            name: isUser ? aor?.description ?? name : name, isUser: isUser,
            isKnown: aor.map { engine.isKnown($0) } ?? false, date: now.date.milliseconds,
            keepsTimeline: engine.timeline.isOn, maximumAge: settings.maximumAge.components.seconds)
        report.providers = ProviderReport.all(of: engine)
        report.held = engine.heldCalls(of: aor, orOf: callID).map { HeldCallReport($0) }
        report.records = engine.timeline
            .underWay { $0.callID == callID || ($0.user == aor?.user && $0.host == aor?.host) }
            .map { TimelineReport($0) }
        if let aor {
            report.missedCalls = engine.buckets.entries(of: aor).count(where: \.isOver)
            report.contacts = contacts(of: aor, engine, now: now)
        }
        return report
    }

    private static func contacts(
        of aor: AddressOfRecord, _ engine: ProxyEngine, now: Moment
    ) -> [ExplainReport.ContactReport] {
        engine.bindings.bindings(for: aor, now: now.instant).map { binding in
            ExplainReport.ContactReport(
                device: binding.id.rawValue, token: engine.bindings.pushToken(of: binding.id)?.description,
                switchedOff: engine.bindings.switchedOffProvider(of: binding.id)?.rawValue,
                hasPushParameters: binding.contact.string.contains("pn-"),
                isReported: engine.bindings.forkTarget(binding.id, now: now.instant)?.isReachable == false,
                registeredAt: binding.registeredAt.milliseconds,
                expiresAt: (now.date + (binding.freshUntil - now.instant)).milliseconds)
        }
    }
}

extension Explainer {
    func register(in router: inout ServiceRouter) {
        router.add("GET", "/v1/explain/{}", scope: .admin, described: .explain(inPath: true)) {
            [self] call throws(ServiceProblem) in
            try answer(call, call.parameter())
        }
        // A Call-ID may hold slashes and backslashes, which a path over TCP may not.
        router.add("GET", "/v1/explain", scope: .admin, described: .explain(inPath: false)) {
            [self] call throws(ServiceProblem) in
            guard let name = call.request.query("name"), !name.isEmpty else {
                throw ServiceProblem(400, "expected name, as user@domain or a Call-ID")
            }
            try answer(call, name)
        }
    }

    private func answer(_ call: ServiceCall, _ name: String) throws(ServiceProblem) {
        let limit = try call.number("limit", in: Self.limits) ?? Self.defaultLimit
        explain(name, limit: limit) { report in
            guard let report else { return call.answer(.notRead) }
            call.answer(report)
        }
    }
}
