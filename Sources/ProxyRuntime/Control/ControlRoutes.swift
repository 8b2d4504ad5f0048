import Addressing
import Foundation
import ProxyCore
import PushDelivery
import Registration
import SIPGrammar
import Timekeeping

/// What operators ask and order over the control socket.
struct ControlRoutes {
    let shard: ProxyShard
    let store: StoreService
    let push: PushService

    func register(in router: inout ServiceRouter) {
        func get(_ pattern: String, _ value: @escaping (ServiceCall) throws(ServiceProblem) -> some Encodable) {
            router.add("GET", pattern, scope: .admin) { call throws(ServiceProblem) in call.answer(try value(call)) }
        }
        get("/v1/held") { _ in heldCalls() }
        get("/v1/users") { _ in users() }
        get("/v1/users/{}/bucket") { bucket(of: $0.parameter()) }
        get("/v1/users/{}/bindings") { bindings(of: $0.parameter()) }
        get("/v1/providers") { _ in providers() }
        router.add("PUT", "/v1/users", scope: .admin, putUser)
        router.add("DELETE", "/v1/users/{}", scope: .admin, removeUser)
        router.add("POST", "/v1/providers/{}/disable", scope: .admin) { call throws(ServiceProblem) in
            try switchProvider(call, on: false)
        }
        router.add("POST", "/v1/providers/{}/enable", scope: .admin) { call throws(ServiceProblem) in
            try switchProvider(call, on: true)
        }
    }

    // MARK: Looking

    private func heldCalls() -> [HeldCallReport] {
        withEngine { engine, _ in engine.heldCalls.map { HeldCallReport($0) } }
    }

    private func bucket(of name: String) -> [BucketEntryReport] {
        guard let aor = Self.aor(name) else { return [] }
        return withEngine { engine, _ in
            engine.buckets.entries(of: aor).map { entry in
                BucketEntryReport(
                    callRef: entry.callRef.description, caller: entry.caller.string, date: entry.date.seconds,
                    isOver: entry.isOver, devices: entry.devices)
            }
        }
    }

    private func bindings(of name: String) -> [BindingReport] {
        guard let aor = Self.aor(name) else { return [] }
        return withEngine { engine, now in
            engine.targets(of: aor, now: now).map { target in
                BindingReport(
                    id: target.id.rawValue, contact: target.requestURI.string,
                    flow: "\(target.flow.transport.parameterName):\(target.flow.remote)",
                    token: target.pushToken?.description, isFresh: target.isFresh)
            }
        }
    }

    private func providers() -> [ProviderReport] {
        let apps = Dictionary(grouping: push.reports) { $0.app.provider.rawValue }
        return withEngine { engine, _ in ProviderReport.all(of: engine) }.map { provider in
            var provider = provider
            provider.apps = (apps[provider.name] ?? []).map { PushAppFigures(name: $0.app.name, $0.report) }
            return provider
        }
    }

    private func users() -> [UserReport] {
        withEngine { engine, _ in engine.users.all.map { UserReport(name: "\($0.name)@\($0.realm)") } }
    }

    // MARK: Changing

    private func switchProvider(_ call: ServiceCall, on isOn: Bool) throws(ServiceProblem) {
        let name = call.parameter()
        guard let provider = PushProvider(rawValue: name) else {
            throw ServiceProblem(404, "no provider is called \(name)")
        }
        let isConfigured = withEngine { engine, now in
            engine.providerSwitched(provider, on: isOn, now: now)
            return engine.configuredProviders.contains(provider)
        }
        guard isConfigured else { throw ServiceProblem(409, "\(name) is not configured") }
        call.answerDone()
    }

    private func putUser(_ call: ServiceCall) throws(ServiceProblem) {
        let expected = "name, ha1MD5 and ha1SHA256"
        guard let added = try call.body(as: UserCredentials.self, expected: expected).digestUser else {
            throw ServiceProblem(400, "expected \(expected)")
        }
        write(.addUser(added), for: call) { $0.userAdded(added) }
    }

    private func removeUser(_ call: ServiceCall) throws(ServiceProblem) {
        let name = call.parameter()
        guard let at = name.lastIndex(of: "@") else { throw ServiceProblem(400, "expected user@domain") }
        let user = ByteString(String(name[..<at]))
        let realm = ByteString(String(name[name.index(after: at)...]))
        let isKnown = withEngine { engine, _ in engine.users.user(named: user, realm: realm) != nil }
        guard isKnown else { throw ServiceProblem(404, "no user is called \(name)") }
        write(.removeUser(name: user, realm: realm), for: call) { $0.userRemoved(name: user, realm: realm) }
    }

    /// Tells the engine when the change is on the disk, and then whoever ordered it.
    private func write(
        _ change: StoreChange, for call: ServiceCall, then tell: @escaping @Sendable (ProxyEngine) -> Void
    ) {
        let shard = shard
        store.write([change]) { isStored in
            guard isStored else { return call.answer(.notStored) }
            shard.assumeIsolated { $0.withEngine { engine, _ in tell(engine) } }
            call.answerDone()
        }
    }

    // MARK: Helpers

    private func withEngine<Result: Sendable>(_ body: @Sendable (ProxyEngine, Moment) -> Result) -> Result {
        shard.assumeIsolated { $0.withEngine(body) }
    }

    /// `user@domain`, or the same after `sip:`.
    static func aor(_ name: String) -> AddressOfRecord? {
        let bare = name.hasPrefix("sip:") ? String(name.dropFirst(4)) : name
        guard let at = bare.lastIndex(of: "@") else { return nil }
        return AddressOfRecord(
            user: ByteString(String(bare[..<at])), host: ByteString(String(bare[bare.index(after: at)...])).lowercased()
        )
    }
}

extension ServiceProblem {
    static var notStored: ServiceProblem { ServiceProblem(503, "the store takes no changes") }
}

extension HeldCallReport {
    init(_ call: ProxyEngine.HeldCall) {
        self.init(
            callRef: call.callRef.description, aor: call.aor.description, callID: call.callID.string,
            receivedAt: call.receivedAt.seconds, sleeping: call.sleeping, ringing: call.ringing)
    }
}

extension PushAppFigures {
    init(name: String, _ report: PushAppReport) {
        self.init(
            name: name, isReachable: report.isReachable, accepted: report.accepted, failed: report.failed,
            deadTokens: report.deadTokens, credentialsRefused: report.credentialsRefused, queued: report.queued,
            inFlight: report.inFlight, refusal: report.refusal, refusedAt: report.refusedAt?.seconds)
    }
}

extension ProviderReport {
    static func all(of engine: ProxyEngine) -> [ProviderReport] {
        engine.configuredProviders.map(\.rawValue).sorted().map { name in
            ProviderReport(name: name, isEnabled: engine.enabledProviders.contains { $0.rawValue == name })
        }
    }
}

extension UserCredentials {
    /// `nil` when the name or a hash is not well-formed.
    var digestUser: DigestUser? {
        guard let at = name.lastIndex(of: "@"), at != name.startIndex,
            ha1MD5.count == 32, ha1SHA256.count == 64, (ha1MD5 + ha1SHA256).allSatisfy(\.isHexDigit)
        else { return nil }
        return DigestUser(
            name: ByteString(String(name[..<at])), realm: ByteString(String(name[name.index(after: at)...])),
            ha1: [.md5: ByteString(ha1MD5.lowercased()), .sha256: ByteString(ha1SHA256.lowercased())])
    }
}
