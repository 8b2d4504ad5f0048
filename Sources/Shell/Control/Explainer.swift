import Addressing
import Bytes
import HTTPServer
import HTTPServices
import Persistence
import ProxyCore
import ProxyRuntime
import PushDelivery
import PushPlanning
import Registration
import Routing
import Timekeeping
import UpstreamRegistration

/// Explains why a push woke a phone or did not, from the engine's state and the stored records.
///
/// Only the event loop of the shard uses ``Explainer``.
final class Explainer: Sendable {
    private let door: ShardDoor
    private let store: any ProxyStore
    private let taps: MessageTaps
    private let settings: TimelineSettings
    /// Asks the other nodes of the cluster; `nil` without a cluster, and for the question of another node.
    private let nodes: NodeQuestions?

    static let limits = 1...1000
    static let defaultLimit = 20

    init(
        door: ShardDoor, store: any ProxyStore, taps: MessageTaps, settings: TimelineSettings, nodes: NodeQuestions?
    ) {
        self.door = door
        self.store = store
        self.taps = taps
        self.settings = settings
        self.nodes = nodes
    }

    /// Answers a request with a report about a user, a call, a push, an address or a number. A caller whose key names
    /// domains gets no reports about calls and users of other domains.
    ///
    /// - Parameters:
    ///   - name: a user, a Call-ID, a `call_ref`, the code of a push, an address or a called number, written as in
    ///     lists and log lines.
    ///   - limit: the maximum number of the store's records; the newest records are used.
    ///   - call: the request to answer.
    private func explain(_ name: String, limit: Int, to call: ServiceCall) async {
        let callID = ByteString(name)
        let (settings, domains) = (settings, call.domains)
        if let user = await user(named: name, domains) { await door.read(user) }
        let (own, aor) = await door.ask(.everything) { engine, now in
            let named = ControlRoutes.aor(name) ?? Self.userOfFirstDomain(name, domains, engine)
            let aor = named.flatMap { domains.permits($0.host) ? $0 : nil }
            return (Self.live(name, aor, callID, domains, engine, settings, now: now), aor)
        }
        let live = await withOthers(own, name, aor, domains)
        let subjects = [
            aor.map { .user($0) }, .callID(callID), CallRef(name).map { .call($0) },
            PushCode(name.lowercased()).map { .push($0) },
            Self.address(name).map { .source(ByteString($0.uriHost)) }, .number(callID),
        ].compactMap { (subject: TimelineSubject?) in subject }
        call.askStore { [store, taps] in
            var report = live
            report.storeFailure = store.obstacle
            let records = try await store.timeline(of: subjects, limit: limit, in: domains.hosts)
            report.records = records.map { TimelineReport($0) } + report.records
            for index in report.records.indices {
                report.records[index].traceID = taps.traceID(ofCall: report.records[index].callID)
            }
            if call.request.query("words") == "true" { report.words = Explanation(report).words }
            call.answer(report)
        }
    }

    /// The user whom the name can mean: in a cluster, this node may not know the user yet.
    private func user(named name: String, _ domains: DomainScope) async -> AddressOfRecord? {
        guard nodes != nil else { return nil }
        if let aor = ControlRoutes.aor(name) { return domains.permits(aor.host) ? aor : nil }
        let first = await door.ask(.everything) { engine, _ in engine.identity.domains.first }
        return (domains.single ?? first).map { AddressOfRecord(user: ByteString(name), host: $0) }
    }

    /// Adds the active calls of the other nodes.
    private func withOthers(
        _ report: ExplainReport, _ name: String, _ aor: AddressOfRecord?, _ domains: DomainScope
    ) async -> ExplainReport {
        guard let nodes else { return report }
        let user = aor.map { "&user=\(NodeQuestions.encoded("\($0)"))" } ?? ""
        return report.joined(
            with: await nodes.ask("/v1/explain?name=\(NodeQuestions.encoded(name))\(user)", for: domains))
    }

    /// Registers the route by which another node asks for the active calls of this node. Stored records are left out,
    /// because the other node reads them itself.
    func registerForNodes(in router: inout ServiceRouter) {
        let (door, settings) = (door, settings)
        router.add("GET", "/v1/explain", scope: .adminRead, domains: .byDomain) { call throws(ServiceProblem) in
            let (name, domains) = (call.request.query("name") ?? "", call.domains)
            let user = call.request.query("user").flatMap(ControlRoutes.aor)
            let aor = user.flatMap { domains.permits($0.host) ? $0 : nil }
            let report = await door.ask(.everything) { engine, now in
                Self.live(name, aor, ByteString(name), domains, engine, settings, now: now)
            }
            call.answer(report)
        }
    }

    /// Reads an address such as `192.0.2.7` or `[2001:db8::7]`, with or without a port.
    private static func address(_ name: String) -> IPAddress? { IPAddress(name) ?? Endpoint(name)?.address }

    /// The user with the given name in the caller's only domain, or in the daemon's first domain; `nil` for an unknown
    /// user.
    private static func userOfFirstDomain(
        _ name: String, _ domains: DomainScope, _ engine: ProxyEngine
    ) -> AddressOfRecord? {
        guard let domain = domains.single ?? engine.identity.domains.first, !name.contains("@") else { return nil }
        let aor = AddressOfRecord(user: ByteString(name), host: domain)
        return engine.isKnown(aor) ? aor : nil
    }

    private static func live(
        _ name: String, _ aor: AddressOfRecord?, _ callID: ByteString, _ domains: DomainScope,
        _ engine: ProxyEngine, _ settings: TimelineSettings, now: Moment
    ) -> ExplainReport {
        let isUser = aor.map { engine.identity.domains.contains($0.host) || engine.bindings.isKnown($0) } ?? false
        var report = ExplainReport(
            name: isUser ? aor?.description ?? name : name, isUser: isUser,
            isKnown: aor.map { engine.isKnown($0) } ?? false, date: Seconds(now.date),
            keepsTimeline: engine.timeline.isOn, maximumAge: settings.maximumAge.components.seconds)
        report.providers = ProviderReport.all(of: engine)
        let ref = CallRef(name)
        report.held = engine.heldCalls(of: aor, orOf: callID).filter { $0.isOf(domains) }.compactMap {
            HeldCallReport($0, of: engine)
        }
        report.records = engine.timeline
            .underWay {
                domains.permits($0.host)
                    && ($0.callID == callID || ($0.user == aor?.user && $0.host == aor?.host)
                        || (ref != nil && $0.callRef == ref) || $0.code?.description == name || $0.isFor(callID))
            }
            .map { TimelineReport($0) }
        if let aor {
            report.missedCalls = engine.buckets.entries(of: aor).count(where: \.isOver)
            report.messages = engine.waitingMessages(of: aor).count
            report.contacts = contacts(of: aor, engine, now: now)
            report.rules = engine.rules(of: aor).map {
                UserRulesBody($0, devices: engine.ruledDevices(of: aor, now: now))
            }
            report.silence = engine.silence(of: aor, now: now).map { "\($0)" }
            report.pbx = engine.upstreamUsers.user(aor).flatMap { engine.upstreamUsers.agent.status(of: $0) }
                .map { UpstreamUserReport($0, engine.upstreamUsers, now: now) }
        }
        return report
    }

    private static func contacts(
        of aor: AddressOfRecord, _ engine: ProxyEngine, now: Moment
    ) -> [ExplainReport.ContactReport] {
        engine.bindings.bindings(for: aor, now: now.instant).map { binding in
            ExplainReport.ContactReport(
                device: binding.id.rawValue, deviceName: binding.id.name,
                token: engine.bindings.pushToken(of: binding.id)?.description,
                switchedOff: engine.bindings.switchedOffProvider(of: binding.id)?.rawValue,
                paused: engine.pausedProvider(of: binding.id)?.rawValue,
                hasPushParameters: binding.contact.string.contains("pn-"),
                isReported: engine.bindings.forkTarget(binding.id, now: now.instant)?.isReachable == false,
                registeredAt: Seconds(binding.registeredAt),
                expiresAt: Seconds(now.date + (binding.freshUntil - now.instant)))
        }
    }
}

extension Explainer {
    func register(in router: inout ServiceRouter) {
        router.add("GET", "/v1/explain/{}", .explain(inPath: true)) { [self] call throws(ServiceProblem) in
            try await answer(call, call.parameter())
        }
        // The name is in the query, because the daemon refuses paths with slashes and backslashes, which a Call-ID can
        // contain.
        router.add("GET", "/v1/explain", .explain(inPath: false)) { [self] call throws(ServiceProblem) in
            guard let name = call.request.query("name"), !name.isEmpty else {
                throw ServiceProblem(400, "expected name, as user@domain or a Call-ID")
            }
            try await answer(call, name)
        }
    }

    private func answer(_ call: ServiceCall, _ name: String) async throws(ServiceProblem) {
        let limit = try call.number("limit", in: Self.limits) ?? Self.defaultLimit
        await explain(name, limit: limit, to: call)
    }
}
