import Addressing
import Bytes
import Collections
import HTTPServer
import HTTPServices
import Persistence
import ProxyCore
import ProxyRuntime
import PushDelivery
import PushSending
import Registration
import SIPGrammar
import Timekeeping

/// Operations for operators, over the control socket and the admin API. Calls and providers are here, the rest in
/// `ControlRoutes+Users`, `+Devices` and `+Messages`.
///
/// No operation walks through all contacts or users on the loop: long lists are read in pages.
struct ControlRoutes {
    let door: ShardDoor
    let store: any ProxyStore
    /// The domains of users and the realm of their passwords. Neither can change while the daemon runs.
    let realms: UserRealms
    /// The state of each app's credentials. Called on the loop.
    let credentials: @Sendable () -> [String: CredentialStanding]

    static let pageLimits = 1...1000
    static let defaultPage = 100

    func register(in router: inout ServiceRouter) {
        registerUsers(in: &router)
        registerDevices(in: &router)
        registerMessages(in: &router)
        router.add("GET", "/v1/held", scope: .admin, described: .heldCalls) { call throws(ServiceProblem) in
            call.answer(try await heldCalls(call))
        }
        router.add("DELETE", "/v1/held/{}", scope: .admin, described: .endCall) { call throws(ServiceProblem) in
            try await endCall(call)
        }
        router.add("GET", "/v1/providers", scope: .admin, described: .providers) { call throws(ServiceProblem) in
            call.answer(await providers())
        }
        for (word, isOn) in [("disable", false), ("enable", true)] {
            router.add(
                "POST", "/v1/providers/{}/\(word)", scope: .admin, described: .providerSwitch(word)
            ) { call throws(ServiceProblem) in
                try await switchProvider(call, on: isOn)
            }
        }
    }

    // MARK: Calls

    private func heldCalls(_ call: ServiceCall) async throws(ServiceProblem) -> HeldCallPage {
        let (after, limit) = (try call.cursor(), try call.pageLimit())
        let page = await door.ask(.everything) { engine, _ in engine.heldCalls(after: after, limit: limit) }
        return HeldCallPage(calls: page.elements.compactMap { HeldCallReport($0) }, next: page.next?.number)
    }

    private func endCall(_ call: ServiceCall) async throws(ServiceProblem) {
        let text = call.request.query("status") ?? "480"
        guard let status = Self.endings[text] else {
            throw ServiceProblem(400, "status is one of \(Self.endings.keys.sorted().joined(separator: ", "))")
        }
        let name = call.parameter()
        call.changes("call \(name)")
        let (meant, isDone) = await door.ask(.everything) { engine, now in
            let meant = engine.heldCalls(named: name)
            guard let id = meant.first?.id, meant.count == 1 else {
                return (meant.compactMap(\.userCall?.callRef), false)
            }
            return ([], engine.callEndedByOperator(id, with: status, now: now))
        }
        if meant.count > 1 {
            throw ServiceProblem(
                409, "\(meant.count) calls have that Call-ID",
                detail: "name one by its callRef: \(meant.map { "\($0)" }.joined(separator: ", "))")
        }
        guard isDone else { throw ServiceProblem(404, "no such call") }
        call.answerDone()
    }

    /// The statuses with which an operator can end a call. Each one has at least the priority of the responses of
    /// cancelled phones (RFC 3261 section 16.7). With a weaker status, the caller would get a phone's response instead.
    static let endings: [String: Status] = ["480": 480, "486": 486, "600": 600, "603": 603]

    // MARK: Providers

    private func providers() async -> [ProviderReport] {
        let (providers, reports) = await door.ask(.everything) { engine, _ in
            (ProviderReport.all(of: engine), engine.pushReports)
        }
        let standings = credentials()
        let apps = Dictionary(grouping: reports) { $0.app.provider.rawValue }
        return providers.map { provider in
            var provider = provider
            provider.apps = (apps[provider.name] ?? []).map { app, report in
                var figures = PushAppFigures(name: app.name, report)
                figures.credentials = CredentialReport(standings[app.name], report)
                return figures
            }
            return provider
        }
    }

    private func switchProvider(_ call: ServiceCall, on isOn: Bool) async throws(ServiceProblem) {
        let name = call.parameter()
        call.changes(name)
        guard let provider = PushProvider(rawValue: name) else {
            let app = name.split(separator: "/", maxSplits: 1).first.flatMap { PushProvider(rawValue: String($0)) }
            throw ServiceProblem(
                404, "no provider is called \(name)",
                detail: app.map { "it is an app of \($0.rawValue), which is switched with all its apps" })
        }
        guard await door.ask(.everything, { engine, _ in engine.configuredProviders.contains(provider) }) else {
            throw ServiceProblem(409, "\(name) is not configured")
        }
        try await write([.switchProvider(provider, isOn: isOn)])
        await door.ask(.everything) { engine, now in engine.providerSwitched(provider, on: isOn, now: now) }
        call.answerDone()
    }

    // MARK: Helpers

    /// Persists the changes, and then returns.
    ///
    /// - Throws: a problem with 503 if they cannot be written.
    func write(_ changes: [ServiceChange]) async throws(ServiceProblem) {
        let isStored = await withCheckedContinuation { asker in
            store.commit(changes) { asker.resume(returning: $0.isStored) }
        }
        if !isStored { throw .notStored }
    }

    /// Reads `user@domain`, with or without `sip:`; `nil` for a text without `@`.
    static func aor(_ name: String) -> AddressOfRecord? {
        let bare = name.hasPrefix("sip:") ? String(name.dropFirst(4)) : name
        guard let at = bare.lastIndex(of: "@") else { return nil }
        return AddressOfRecord(
            user: ByteString(String(bare[..<at])), host: ByteString(String(bare[bare.index(after: at)...])).lowercased()
        )
    }
}

extension ServiceCall {
    nonisolated func pageLimit() throws(ServiceProblem) -> Int {
        try number("limit", in: ControlRoutes.pageLimits) ?? ControlRoutes.defaultPage
    }

    /// The first parameter of the path, read as an address-of-record.
    nonisolated func aor() throws(ServiceProblem) -> AddressOfRecord {
        guard let aor = ControlRoutes.aor(parameter()) else { throw ServiceProblem(404, "expected user@domain") }
        return aor
    }
}

extension ServiceProblem {
    static var notStored: ServiceProblem { ServiceProblem(503, "the store cannot write changes") }
}

extension HeldCallReport {
    init?(_ call: StoredCall) {
        guard let userCall = call.userCall else { return nil }
        self.init(
            id: call.id, callRef: userCall.callRef.description, aor: userCall.aor.description,
            callID: userCall.callID.string,
            receivedAt: call.receivedAt.seconds, sleeping: call.waiting.count,
            ringing: call.ringing.count, sleepingDevices: call.waiting.map(\.name),
            ringingDevices: call.ringing.map(\.name))
    }
}

extension PushAppFigures {
    init(name: String, _ report: PushAppReport) {
        self.init(
            name: name, isReachable: report.isReachable, accepted: report.accepted, failed: report.failed,
            deadTokens: report.deadTokens, credentialsRefused: report.credentialsRefused,
            foreignTokens: report.foreignTokens, queued: report.queued,
            inFlight: report.inFlight, problem: report.problem, refusal: report.refusal,
            refusedAt: report.refusedAt?.seconds)
    }
}

extension ProviderReport {
    static func all(of engine: ProxyEngine) -> [ProviderReport] {
        engine.configuredProviders.map(\.rawValue).sorted().map { name in
            ProviderReport(name: name, isEnabled: engine.enabledProviders.contains { $0.rawValue == name })
        }
    }
}
