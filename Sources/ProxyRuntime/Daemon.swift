import Addressing
import Bytes
import Crypto
import Persistence
import ProxyCore
import PushDelivery
import PushSending
import Reactor
import Registration
import Resolver
import Settings
import SIPMessage
package import Telemetry
import Timekeeping

/// The whole daemon on one loop: made from settings, run until told to stop.
///
/// Start-up order: store, listeners, engine with what was stored, services, control socket, HTTP API. Shutdown is the reverse: no
/// new messages, what is queued is committed, the store is closed.
///
/// - `@unchecked Sendable` because it is used before its loop runs, and on the loop's thread then.
package final class Daemon: @unchecked Sendable {
    let loop: EventLoop
    private let log: Log
    private let settingsPath: String
    /// How many there may be, sockets included.
    private let descriptors: Int
    private var settings: DaemonSettings
    private let store: SQLiteStore
    let door: ShardDoor
    private let shard: ProxyShard
    let streams: StreamFlows
    private let push: PushService
    private let keys: APIKeyRing
    private let api: APIService
    private let admin: APIService
    let apps: MobileApps
    private let deviceCodes: DeviceCodes
    private let dialogKeys: DialogKeys
    private var deadTokens: DeadTokenService?
    private let dryRuns: DryRuns
    private var deviceRegistration: DeviceRegistrationService?
    private var feedback: FeedbackService?
    private var sockets: [UInt16: UDPSocket] = [:]
    private var streamListeners: [StreamListener] = []
    private var control: ControlService?
    private var signals: [SignalWatch] = []

    /// Where the HTTP API listens.
    var apiEndpoints: [Endpoint] { api.endpoints }
    /// Where the admin API listens.
    var adminEndpoints: [Endpoint] { admin.endpoints }
    /// What `/openapi.json` does not tell of, as method and pattern.
    var undescribedRoutes: [String] {
        (api.router.routes + admin.router.routes).filter { $0.description == nil }.map { "\($0.method) \($0.pattern)" }
    }
    /// The routes that the API serves.
    var apiRoutes: [(method: String, pattern: String)] { api.router.routes.map { ($0.method, $0.pattern) } }
    /// What listens, as others reach it.
    private(set) var listeners: [Listener] = []

    package init(settings: DaemonSettings, path: String, log: Log) async throws(StartError) {
        self.settings = settings
        self.log = log
        settingsPath = path
        descriptors = ProcessDescriptors.raiseLimit()
        let flowLimits = settings.flowLimits(descriptors: descriptors)
        if flowLimits.connections < settings.limits.connections {
            log.warning(
                "the system allows fewer descriptors than limits.connections asks for",
                [.count: .number(flowLimits.connections)])
        }
        do {
            loop = try EventLoop()
        } catch {
            throw StartError("no event loop: \(error)")
        }
        do throws(StoreError) {
            store = try SQLiteStore(path: settings.store, timeline: settings.push.timeline, loop: loop, log: log)
            keys = APIKeyRing(try await store.keys().compactMap { APIKey($0) })
            apps = Self.apps(settings, and: try await store.mobileApps(), log: log)
        } catch {
            throw StartError(error)
        }
        let access = settings.api.access(settings.limits)
        api = APIService(access, loop: loop, keys: keys, log: log)
        admin = APIService(settings.admin.access(like: access), loop: loop, keys: keys, log: log)
        do {
            streams = try StreamFlows(loop: loop, limits: flowLimits, log: log)
        } catch {
            throw StartError("no timer: \(error)")
        }
        let bound = try Self.bind(settings, flowLimits, streams, on: loop)
        sockets = bound.sockets
        streamListeners = bound.streamListeners
        listeners = bound.listeners
        do {
            push = try PushService(loop: loop, settings: settings.push, log: log)
        } catch {
            throw StartError("push: \(error.description)")
        }
        let codes = try await DeviceCodes.load(store)
        deviceCodes = codes
        push.deviceCode = { ByteString(codes.code(of: $0)) }
        dryRuns = DryRuns(loop: loop) { [push] in push.send($0) }
        dialogKeys = try await DialogKeys(store: store, log: log, now: loop.moment.date)
        let engine = try await Self.makeEngine(
            settings, listeners: bound.listeners, store: store, seal: dialogKeys.sealer, vapidKey: push.vapidKey,
            log: log, now: loop.moment)
        let resolver = try HopResolver(loop: loop, spoken: Set(bound.listeners.map(\.transport)))
        let services = ShardServices(store: store, push: push, resolve: { resolver.resolve($0, $1) })
        shard = ProxyShard(loop: loop, engine: engine, streams: streams, services: services, log: log)
        door = ShardDoor(to: shard)
        try await connect()
    }

    /// Runs until SIGTERM or SIGINT.
    package func run() {
        log.notice(
            "started",
            [
                .version: .text(Version.current),
                .listener: .text(listeners.map { "\($0.transport.parameterName):\($0.bound)" }.joined(separator: " ")),
            ])
        loop.run(name: "sippushd")
        store.close()
        log.notice("stopped")
    }

    private func shutDown() async {
        await door.ask(.everything) { engine, now in engine.stopped(now: now) }
        loop.stop()
    }

    // MARK: Start

    private struct Bound {
        var sockets: [UInt16: UDPSocket] = [:]
        /// They accept connections as soon as the loop runs.
        var streamListeners: [StreamListener] = []
        var listeners: [Listener] = []
    }

    private static func bind(
        _ settings: DaemonSettings, _ limits: FlowLimits, _ streams: StreamFlows, on loop: EventLoop
    ) throws(StartError) -> Bound {
        var bound = Bound()
        for (index, address) in settings.listen.enumerated() {
            let number = UInt16(truncatingIfNeeded: index)
            var endpoint = address.endpoint
            do {
                if address.transport == .udp {
                    let socket = try UDPSocket(boundTo: endpoint, on: loop)
                    endpoint = socket.local
                    bound.sockets[number] = socket
                } else {
                    let listener = try StreamListener(
                        boundTo: endpoint, on: loop, limit: .max,
                        connectionLimits: StreamFlows.streamLimits(limits)
                    ) { stream in streams.accepted(stream, by: number) }
                    endpoint = listener.local
                    bound.streamListeners.append(listener)
                }
            } catch {
                throw .cannotListen(on: "\(address.transport.parameterName):\(endpoint)", error)
            }
            bound.listeners.append(
                Listener(
                    number: number, transport: address.transport, bound: endpoint,
                    sentBy: sentBy(endpoint, settings)))
        }
        return bound
    }

    /// The host and port that Via and Record-Route carry.
    private static func sentBy(_ endpoint: Endpoint, _ settings: DaemonSettings) -> ByteString {
        if let name = settings.advertise {
            return ByteString(name.contains(":") ? name : "\(name):\(endpoint.port)")
        }
        let address =
            endpoint.address.isUnspecified ? HostAddress.primary(isV4: endpoint.address.isV4) : endpoint.address
        return ByteString("\(address.uriHost):\(endpoint.port)")
    }

    private static func makeEngine(
        _ settings: DaemonSettings, listeners: [Listener], store: SQLiteStore, seal: TextSealer, vapidKey: String?,
        log: Log, now: Moment
    ) async throws(StartError) -> ProxyEngine {
        var engineSettings = settings.engineSettings
        engineSettings.registrar.push.vapidKey = vapidKey
        let functions = try EngineFunctions.make(seal: seal)
        do throws(StoreError) {
            let cutOff = try await store.cutOffOpenCalls(
                at: now.date, isKept: settings.push.timeline.maximumRecords > 0)
            if cutOff > 0 { log.warning("calls were under way when the last run ended", [.count: .number(cutOff)]) }
            let engine = ProxyEngine(
                settings: engineSettings,
                identity: LocalIdentity(
                    listeners: listeners, domains: settings.domains.map { ByteString($0) }, machine: HostAddress.all,
                    others: settings.api.listen + settings.admin.listen),
                functions: functions, log: log, restoring: try await store.engineState(), startedAt: now.date)
            try await restore(engine, from: store, unreadAge: engineSettings.unreadAge, now: now)
            return engine
        } catch {
            throw StartError(error)
        }
    }

    /// Brings back what was stored, some of it at a time: all at once it would be in memory twice.
    private static func restore(
        _ engine: ProxyEngine, from store: some ProxyStore, unreadAge: Duration, now: Moment
    ) async throws(StoreError) {
        for dialog in try await store.dialogRenewals(after: now.date) {
            engine.restoreDialog(dialog.digest, until: dialog.until, now: now)
        }
        var refused: [EngineChange] = []
        var lastDevice: DeviceID?
        while true {
            let rows = try await store.bindings(after: lastDevice, limit: restoreLimit)
            for row in rows where !engine.restore(row, now: now) { refused.append(.binding(.delete(row.id))) }
            lastDevice = rows.last?.id
            if lastDevice == nil { break }
        }
        if !refused.isEmpty { store.record(refused) }
        var lastPush: UnreadPush?
        while engine.timeline.isOn {
            let pushes = try await store.unreadPushes(
                since: now.date + (.zero - unreadAge), after: lastPush, limit: restoreLimit)
            for push in pushes { engine.restoreUnread(push.code, push.matter, of: push.device, at: push.requestedAt) }
            lastPush = pushes.last
            if lastPush == nil { break }
        }
        engine.restored(now: now)
    }

    private static let restoreLimit = 5000

    private func connect() async throws(StartError) {
        let (shard, door, loop) = (shard, door, loop)
        streams.start(for: shard)
        api.wrongLogins.count(with: door)
        admin.wrongLogins.count(with: door)
        store.finished = { results in shard.assumeIsolated { $0.committed(results) } }
        let dryRuns = dryRuns
        push.finished = { id, outcome in
            if !dryRuns.finished(id, outcome) { shard.assumeIsolated { $0.pushFinished(id, outcome) } }
        }
        push.noted = { id, step in shard.assumeIsolated { $0.pushNoted(id, step) } }
        do throws(PushSetupError) {
            feedback = try FeedbackService(settings: settings.push, loop: loop, log: log) { dead, cursor, limit in
                await door.ask(.everything) { engine, now in
                    engine.tokensReportedDead(dead, from: cursor, limit: limit, now: now)
                }
            }
        } catch {
            throw StartError(error.description)
        }
        do {
            try store.start()
            push.start()
            try dialogKeys.start(through: door, on: loop)
            var router = ServiceRouter()
            registerOperatorRoutes(in: &router)
            BackupService(store: store, loop: loop, log: log).register(in: &router)
            do {
                control = try ControlService(path: settings.control, loop: loop, router: router, log: log)
            } catch {
                throw StartError.cannotListen(on: "the control socket \(settings.control)", isFile: true, error)
            }
            signals = [
                try SignalWatch(.terminate, on: loop) { [weak self] in
                    loop.startTask { [weak self] _ in await self?.shutDown() }
                },
                try SignalWatch(.interrupt, on: loop) { [weak self] in
                    loop.startTask { [weak self] _ in await self?.shutDown() }
                },
                try SignalWatch(.hangup, on: loop) { [weak self] in
                    loop.startTask { [weak self] _ in await self?.reload() }
                },
            ]
        } catch let error as StartError {
            throw error
        } catch {
            throw StartError("cannot start: \(error)")
        }
        try await registerServices()
        try api.listen()
        try admin.listen()
        let sockets = sockets
        loop.post { shard.assumeIsolated { $0.start(sockets: sockets) } }
    }

    /// The same over the control socket and the admin API.
    private func registerOperatorRoutes(in router: inout ServiceRouter) {
        let (loop, store) = (loop, store)
        SystemRoutes(obstacle: { loop.isRunning ? store.obstacle : "it is about to stop" }).register(in: &router)
        ControlRoutes(door: door, store: store, push: push, settings: settings)
            .register(in: &router)
        KeyRoutes(keys: keys, store: store, loop: loop).register(in: &router)
        AppRoutes(apps: apps, store: store, loop: loop).register(in: &router)
        MetricsRoute(
            door: door, figures: { [weak self] in self?.figures ?? CounterSet() }, reports: { [push] in push.reports }
        ).register(in: &router)
        Explainer(door: door, store: store, settings: settings.push.timeline).register(in: &router)
        let feedback = feedback
        router.add(
            "POST", "/v1/feedback/pull", scope: .admin, described: .feedback
        ) { call throws(ServiceProblem) in
            guard let feedback else { throw ServiceProblem(409, "push.apns.feedback.endpoint is not set") }
            feedback.pull { call.answer($0) }
        }
    }

    /// The figures of all parts but the engine together.
    private var figures: CounterSet {
        var figures = store.figures
        for part in [push.counters, streams.figures, api.figures, admin.figures] { figures.merge(part) }
        figures.count(.logLineDropped, by: UInt64(log.droppedLines))
        for socket in sockets.values {
            figures.count(.udpReceiveDropped, by: socket.receiveDrops)
            figures.count(.udpSendDropped, by: socket.counters.dropped)
        }
        return figures
    }

    /// Those of the settings and those of the store, which must not get into each other's way.
    private static func apps(
        _ settings: DaemonSettings, and stored: [StoredMobileApp], log: Log
    ) -> MobileApps {
        let apps = MobileApps(settings.api.mobileApps, domains: settings.domains)
        for app in stored {
            if let conflict = MobileApps.conflict(of: app, with: settings.api.mobileApps) {
                log.warning("a stored app is not used", [.topic: .text(app.name), .reason: .text(conflict)])
            } else {
                apps.add(app)
            }
        }
        return apps
    }

    private func registerServices() async throws(StartError) {
        let (loop, store) = (loop, store)
        SystemRoutes(obstacle: { loop.isRunning ? store.obstacle : "it is about to stop" }).register(in: &api.router)
        let search = DeviceSearch(door, on: loop)
        PushTokenService(door: door, form: settings.api.pushTokens.provider).register(in: &api.router)
        registerOperatorRoutes(in: &admin.router)
        if settings.api.notifications.enabled {
            NotificationService(
                door: door, loop: loop, push: push, store: store, codes: deviceCodes, search: search,
                form: settings.api.pushTokens.provider
            ).register(in: &api.router)
        }
        do {
            let service = try DeadTokenService(store: store, loop: loop, age: settings.api.deadTokenAge)
            service.register(in: &api.router)
            deadTokens = service
        } catch {
            throw StartError("dead tokens: \(error)")
        }
        try await registerDeviceRegistration()
        registerLifecycle(search)
    }

    /// Marks are kept with the records of the timeline: without it the paths are not served.
    private func registerLifecycle(_ search: DeviceSearch) {
        guard settings.push.timeline.maximumRecords > 0 else { return }
        LifecycleRoutes(door: door, store: store, codes: deviceCodes).register(in: &api.router)
        StatisticsRoutes(door: door, loop: loop, store: store, codes: deviceCodes).register(in: &api.router)
        DeviceCodeRoutes(door: door, codes: deviceCodes, search: search).register(in: &api.router)
    }

    /// Also without apps, since they may be added at any time: to strangers all requests are unknown.
    private func registerDeviceRegistration() async throws(StartError) {
        guard !settings.api.listen.isEmpty || !apps.isEmpty else { return }
        let resolver: DNSResolver
        do throws(SystemError) {
            resolver = try DNSResolver(on: loop)
        } catch {
            throw StartError("no resolver: \(error)")
        }
        let service = try DeviceRegistrationService(
            settings: settings.api, apps: apps, loop: loop, directory: DeviceDirectory(door),
            store: store,
            dryRuns: dryRuns, wrongLogins: api.wrongLogins, log: log,
            ownEndpoints: { [weak self] in
                guard let self else { return [] }
                return api.endpoints + admin.endpoints + listeners.map(\.bound)
            }, resolve: { resolver.addresses(of: $0, $1) })
        service.register(in: &api.router)
        try await service.resume()
        deviceRegistration = service
    }

    // MARK: Reload

    /// SIGHUP: takes what may change, and says what may not.
    private func reload() async {
        let changed: DaemonSettings
        do {
            changed = try DaemonSettings(contentsOf: settingsPath)
        } catch {
            log.error("settings not reloaded, the old ones stay", [.reason: .text(error.description)])
            return
        }
        let fixed = settings.fixedDifferences(from: changed)
        for key in fixed { log.warning("this setting needs a restart", [.setting: .text(key)]) }
        settings.takeReloadable(from: changed)
        log.setLevel(settings.log.level)
        let engineSettings = settings.engineSettings
        await door.ask(.everything) { engine, _ in engine.settingsChanged(engineSettings) }
        streams.limitsChanged(settings.flowLimits(descriptors: descriptors))
        api.reloadCertificate()
        admin.reloadCertificate()
        log.notice("settings reloaded", [.path: .text(settingsPath)])
    }
}
