import HTTPServices
import Persistence
import ProxyCore
import ProxyRuntime
import PushDelivery
import PushPlanning
import Registration
import Timekeeping

/// The operators' HTTP routes that list push providers, switch them on or off, and pause them.
extension ControlRoutes {
    func registerProviders(in router: inout ServiceRouter) {
        router.add("GET", "/v1/providers", domains: .wholeDaemon, .providers) { call throws(ServiceProblem) in
            call.answer(await providers())
        }
        router.add("GET", "/v1/providers/{}/disable", domains: .wholeDaemon, .previewDisable) {
            call throws(ServiceProblem) in
            call.answer(ProviderDisableReport(await switchOff(of: try await provider(of: call))))
        }
        router.add("POST", "/v1/providers/{}/disable", domains: .wholeDaemon, .disableProvider) {
            call throws(ServiceProblem) in
            try await disable(call)
        }
        for (word, state) in [("enable", ProviderState.on), ("pause", .paused), ("resume", .on)] {
            router.add("POST", "/v1/providers/{}/\(word)", domains: .wholeDaemon, .providerSwitch(word)) {
                call throws(ServiceProblem) in
                try await switchProvider(call, word, to: state)
            }
        }
    }

    func providers() async -> [ProviderReport] {
        let (providers, reports, refreshes) = await door.ask(.everything) { engine, _ in
            (ProviderReport.all(of: engine), engine.pushReports, engine.refreshReports)
        }
        let standings = credentials()
        let apps = Dictionary(grouping: reports) { $0.app.provider.rawValue }
        return providers.map { provider in
            var provider = provider
            provider.apps = (apps[provider.name] ?? []).map { app, report in
                var figures = PushAppFigures(name: app.name, report)
                figures.credentials = CredentialReport(standings[app.name], report)
                figures.refreshes = refreshes.first { $0.app.id == app.id }.map { RefreshReport($0.figures) }
                return figures
            }
            return provider
        }
    }

    private func switchProvider(_ call: ServiceCall, _ word: String, to state: ProviderState)
        async throws(ServiceProblem)
    {
        let provider = try await provider(of: call)
        // `switches` makes sure that no other request disables the provider between the check and the write.
        await switches.enter()
        defer { switches.leave() }
        // Only `enable` can enable a disabled provider, because only `enable` restores the provider's contacts.
        if word != "enable", await self.state(of: provider) == .off {
            throw ServiceProblem(409, "\(provider.rawValue) is off", detail: "enable it first")
        }
        try await write([.switchProvider(provider, state)])
        await door.ask(.everything) { engine, now in engine.providerSwitched(provider, to: state, now: now) }
        call.answerDone()
    }

    private func disable(_ call: ServiceCall) async throws(ServiceProblem) {
        let provider = try await provider(of: call)
        await switches.enter()
        defer { switches.leave() }
        try await write([.switchProvider(provider, .off)])
        let effect = await door.ask(.everything) { engine, now in
            let effect = engine.bindings.switchOff(of: provider, now: now.instant)
            engine.providerSwitched(provider, to: .off, now: now)
            return effect
        }
        call.answer(ProviderDisableReport(effect))
    }

    /// Gives each push provider the state that the store has.
    func readProviders() async throws(StoreError) {
        await switches.enter()
        defer { switches.leave() }
        let stored = try await store.switchedProviders()
        await door.ask(.everything) { engine, now in
            for provider in engine.configuredProviders {
                let state = stored[provider] ?? .on
                if engine.state(of: provider) != state { engine.providerSwitched(provider, to: state, now: now) }
            }
        }
    }

    private func switchOff(of provider: PushProvider) async -> BindingTable.SwitchOff {
        await door.ask(.everything) { engine, now in engine.bindings.switchOff(of: provider, now: now.instant) }
    }

    /// Returns the provider that the path names, and notes its name for the audit log.
    private func provider(of call: ServiceCall) async throws(ServiceProblem) -> PushProvider {
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
        return provider
    }

    private func state(of provider: PushProvider) async -> ProviderState {
        await door.ask(.everything) { engine, _ in engine.state(of: provider) }
    }
}

extension ProviderReport {
    static func all(of engine: ProxyEngine) -> [ProviderReport] {
        engine.configuredProviders.sorted { $0.rawValue < $1.rawValue }.map { provider in
            let state = engine.state(of: provider)
            return ProviderReport(name: provider.rawValue, isEnabled: state != .off, isPaused: state == .paused)
        }
    }
}

extension ProviderDisableReport {
    init(_ effect: BindingTable.SwitchOff) {
        self.init(contactsEnded: effect.ending, contactsOrdinary: effect.ordinary)
    }
}

extension RefreshReport {
    init(_ figures: RefreshPushes.Figures) {
        self.init(sent: figures.sent, came: figures.came, never: figures.never, heldBack: figures.heldBack)
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
        guard report.hostCount > 0 else { return }
        hostCount = report.hostCount
        hosts = report.hosts.map(PushHostFigures.init)
    }
}

extension PushHostFigures {
    init(_ report: PushHostReport) {
        self.init(
            host: report.host, isReachable: report.isReachable, accepted: report.accepted, failed: report.failed,
            limited: report.limited, queued: report.queued, inFlight: report.inFlight, problem: report.problem,
            refusal: report.refusal)
    }
}
