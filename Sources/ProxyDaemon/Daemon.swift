import Addressing
import Bytes
import Control
import Crypto
import HTTPServices
import Persistence
import ProxyCore
package import ProxyRuntime
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
/// - `@unchecked Sendable` because it is used before its loop runs, and on the loop's thread afterwards.
package final class Daemon: @unchecked Sendable {
    let loop: EventLoop
    private let log: Log
    private let settingsPath: String
    /// How many file descriptors the process may open, sockets included.
    private let descriptors: Int
    private var settings: DaemonSettings
    private let store: any ProxyStore
    let door: ShardDoor
    private let shard: ProxyShard
    let streams: StreamFlows
    private let push: PushService
    private let keys: APIKeyRing
    let api: APIService
    let admin: APIService
    let services: ApplicationServices
    private let dialogKeys: DialogKeys
    private var feedback: FeedbackService?
    private let bound: BoundSockets
    private let tls: ListenerTLS
    private var control: ControlService?
    private var signals: [SignalWatch] = []

    /// The SIP listeners, with the addresses that others reach them by.
    var listeners: [Listener] { bound.listeners }

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
        } catch {
            throw StartError(error)
        }
        let access = settings.api.access(settings.limits)
        api = APIService(access, loop: loop, keys: keys, log: log)
        admin = APIService(settings.admin.access(like: access), loop: loop, keys: keys, log: log)
        tls = try ListenerTLS(settings.tls, on: loop)
        do {
            streams = try StreamFlows(
                loop: loop, limits: flowLimits, tls: tls.setup, pingInterval: settings.webSocket.pingInterval,
                log: log)
        } catch {
            throw StartError("no timer: \(error)")
        }
        bound = try BoundSockets(settings, flowLimits, streams, tls: tls, on: loop)
        do {
            push = try PushService(loop: loop, settings: settings.push, log: log)
        } catch {
            throw StartError("push: \(error.description)")
        }
        services = try await ApplicationServices(
            settings: settings.api, domains: settings.domains,
            keepsTimeline: settings.push.timeline.maximumRecords > 0, store: store, push: push, loop: loop, log: log)
        dialogKeys = try await DialogKeys(store: store, log: log, now: loop.moment.date)
        let engine = try await Self.makeEngine(
            settings, listeners: bound.listeners, store: store, seal: dialogKeys.sealer, vapidKey: push.vapidKey,
            log: log, now: loop.moment)
        let resolver = try HopResolver(loop: loop, spoken: Set(bound.listeners.map(\.transport)), tls: tls.setup)
        shard = ProxyShard(
            loop: loop, engine: engine, streams: streams,
            services: ShardServices(store: store, push: push, resolve: { resolver.resolve($0, $1) }), log: log)
        door = ShardDoor(to: shard)
        try await connect()
    }

    /// Runs until SIGTERM or SIGINT.
    package func run() async throws(StartError) {
        let (log, listeners) = (log, listeners)
        loop.post {
            log.notice(
                "started",
                [
                    .version: .text(Version.current),
                    .listener: .text(
                        listeners.map { "\($0.transport.parameterName):\($0.bound)" }.joined(separator: " ")),
                ])
        }
        do throws(SystemError) {
            try await loop.runOnThread(name: "sippushd")
        } catch {
            store.close()
            throw StartError("no thread: \(error)")
        }
        store.close()
        log.notice("stopped")
    }

    private func shutDown() async {
        await door.ask(.everything) { engine, now in engine.stopped(now: now) }
        loop.stop()
    }

    // MARK: Start

    private func connect() async throws(StartError) {
        let (shard, door, loop) = (shard, door, loop)
        streams.start(for: shard)
        api.wrongLogins.count(with: door)
        admin.wrongLogins.count(with: door)
        store.finished = { results in shard.assumeIsolated { $0.committed(results) } }
        push.finished = { [services] id, outcome in
            if !services.finished(id, outcome) { shard.assumeIsolated { $0.pushFinished(id, outcome) } }
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
        let operators = OperatorServices(
            door: door, store: store, push: push, feedback: feedback, loop: loop, log: log, keys: keys,
            apps: services.apps, realms: settings.userRealms, timeline: settings.push.timeline,
            figures: { [weak self] in self?.figures ?? CounterSet() })
        do {
            try store.start()
            push.start()
            try dialogKeys.start(through: door, on: loop)
            do {
                control = try ControlService(
                    path: settings.control, loop: loop, router: operators.controlRouter(), log: log)
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
        operators.register(in: &admin.router)
        try await services.register(in: api, door: door) { [weak self] in
            guard let self else { return [] }
            return api.endpoints + admin.endpoints + listeners.map(\.bound)
        }
        if let path = settings.webSocket.apiPath, let upgrade = bound.apiUpgrade(settings, streams) {
            api.takesWebSockets(at: path, upgrade)
        }
        try api.listen()
        try admin.listen()
        let sockets = bound.sockets
        loop.post { shard.assumeIsolated { $0.start(sockets: sockets) } }
    }

    /// The figures of all parts but the engine together.
    private var figures: CounterSet {
        var figures = store.figures
        for part in [push.counters, streams.figures, api.figures, admin.figures] { figures.merge(part) }
        figures.count(.logLineDropped, by: UInt64(log.droppedLines))
        for socket in bound.sockets.values {
            figures.count(.udpReceiveDropped, by: socket.receiveDrops)
            figures.count(.udpSendDropped, by: socket.counters.dropped)
        }
        return figures
    }

    // MARK: Reload

    private func reloadTLS() {
        do throws(StartError) {
            try tls.load(settings.tls)
            bound.replaceTLS(tls)
        } catch {
            log.error("certificate not reloaded, the old one stays", [.reason: .text(error.description)])
        }
    }

    /// Reads the settings again, on SIGHUP: takes over what may change, and logs what needs a restart.
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
        reloadTLS()
        streams.limitsChanged(settings.flowLimits(descriptors: descriptors))
        api.reloadCertificate()
        admin.reloadCertificate()
        log.notice("settings reloaded", [.path: .text(settingsPath)])
    }
}
