import Addressing
import Bytes
import Control
import Crypto
import HTTPServices
import OperatorPage
import Persistence
import ProxyCore
import ProxyPolicy
package import ProxyRuntime
import PushDelivery
import PushSending
import Reactor
import Registration
import Resolver
import Routing
import SIPMessage
import Settings
package import Telemetry
import Timekeeping
import UserSources

/// The whole daemon on one loop: it is created from settings, and runs until a signal or an operator stops it.
///
/// The parts start in this order: store, listeners, engine with the stored state, services, control socket, HTTP API.
/// At its end, the daemon accepts no new messages, commits queued changes, and closes the store.
///
/// - The class is `@unchecked Sendable`, because it is used before its loop runs, and later only on the loop's thread.
package final class Daemon: @unchecked Sendable {
    let loop: EventLoop
    let log: Log
    private let settingsPath: String
    /// The number of file descriptors, including sockets, that the process can open.
    private let descriptors: Int
    private(set) var settings: DaemonSettings
    private let store: DatabaseStore
    let door: ShardDoor
    private let shard: ProxyShard
    let streams: StreamFlows
    private let push: PushService
    private let keys: APIKeyRing
    let api: APIService
    let admin: APIService
    let services: ApplicationServices
    private let users: UserSources
    private let keySources: KeySources
    private let dialogKeys: DialogKeys
    private var feedback: FeedbackService?
    /// Reads the tables that operators change at other nodes.
    private var operatorTables: OperatorTables?
    let taps: MessageTaps
    let events: EventService
    private let bound: BoundSockets
    /// This daemon as a node of a cluster; `nil` if no other daemon uses the store.
    private let node: OwnNode?
    private let tls: ListenerTLS
    private var control: ControlService?
    /// Answers the questions of other nodes; `nil` without a cluster.
    private var nodeService: NodeService?
    /// The live view of the operators' web page; `nil` without the admin API.
    private(set) var live: LiveView?
    private var plots: PlotRecorder?
    private var signals: [SignalWatch] = []
    private let manager: ServiceManager?
    private var memory: MemoryGuard?
    private var certificates: CertificateWatch?
    private var credentials: CredentialWatch?
    private(set) var notices: ServiceNotices?
    /// The latest time at which the daemon stops; `nil` while nobody has asked the daemon to stop.
    var end: Instant?
    var wasSignalled = false

    /// The SIP listeners, with the addresses under which other hosts reach them.
    var listeners: [Listener] { bound.listeners }

    /// Opens the store and the sockets, and prepares all parts. The parameter `environment` has the variables by which
    /// a service manager names its socket and passes sockets.
    package init(
        settings: DaemonSettings, path: String, log: Log, environment: [String: String] = [:]
    ) async throws(StartError) {
        self.settings = settings
        let process = ProcessDescriptors.owner
        manager = ServiceManager(environment: environment, process: process)
        self.log = log
        settingsPath = path
        descriptors = ProcessDescriptors.raiseLimit()
        let flowLimits = settings.flowLimits(descriptors: descriptors)
        if flowLimits.connections < settings.limits.connections {
            log.warning(
                "the operating system allows fewer file descriptors than the setting 'limits.connections' needs: raise 'LimitNOFILE' in the systemd unit",
                [.count: .number(flowLimits.connections)])
        }
        do {
            loop = try EventLoop()
        } catch {
            throw StartError("cannot create an event loop: \(error)")
        }
        loop.handover = SocketHandover(environment: environment, process: process)
        let place = try settings.storePlace()
        do throws(StoreError) {
            store = try place.open(
                callsFolder: settings.calls, timeline: settings.push.timeline, loop: loop, log: log)
            keys = APIKeyRing(try await store.keys().compactMap { APIKey($0) })
        } catch {
            throw StartError(error)
        }
        let access = settings.api.access(settings.limits)
        api = APIService(access, loop: loop, keys: keys, log: log)
        admin = APIService(settings.admin.access(like: access), loop: loop, keys: keys, log: log)
        tls = try ListenerTLS(settings.tls, cluster: settings.cluster, on: loop)
        do {
            streams = try StreamFlows(
                loop: loop, limits: flowLimits, tls: tls.setup, pingInterval: settings.webSocket.pingInterval,
                log: log)
        } catch {
            throw StartError("cannot create a timer: \(error)")
        }
        bound = try BoundSockets(settings, flowLimits, streams, tls: tls, on: loop)
        do {
            push = try PushService(loop: loop, settings: settings.push, log: log)
        } catch {
            throw StartError("push: \(error.description)")
        }
        services = try await ApplicationServices(
            settings: settings.api, domains: settings.domains,
            keepsTimeline: settings.push.timeline.maximumRecords > 0, store: store, loop: loop, log: log)
        dialogKeys = try await DialogKeys(
            store: store, isShared: store.shared != nil, log: log, now: loop.moment.date)
        // The secret for each `UpstreamToken` is needed even without a domain under `register-upstream`, because a
        // reload can add a domain.
        let upstreamCode = try await UpstreamCode.make(store: store, now: loop.moment.date)
        let secret =
            store.shared == nil
            ? [] : try await PermanentSecret.load("limit-hashes", from: store, now: loop.moment.date)
        node = bound.node(of: settings, run: store.shared?.run, secret: SipHash.Key(secret))
        let engine = try await Self.makeEngine(
            settings, push, listeners: bound.listeners, store: store, node: node,
            functions: try EngineFunctions.make(
                seal: dialogKeys.sealer, deviceCode: { [services] in services.deviceCode(of: $0) },
                upstreamCode: upstreamCode,
                upstreamSeal: store.shared == nil ? nil : try UpstreamCode.seal(upstreamCode), log: log),
            now: loop.moment)
        do throws(SystemError) {
            users = try UserSources(settings.users, on: loop)
        } catch {
            throw StartError("users: \(error)")
        }
        keySources = KeySources(settings.bearer, on: loop)
        let resolver = try HopResolver(loop: loop, spoken: bound.spoken, tls: tls.setup)
        events = try EventService(
            settings.events, store: settings.store, hasDomains: settings.domains.count > 1, on: loop, log: log)
        shard = ProxyShard(
            loop: loop, engine: engine, streams: streams,
            services: ShardServices(
                store: store, shared: store.shared, push: push, resolve: { resolver.resolve($0, $1) },
                askUser: { [users] in users.ask($0, $1) }, readKeys: { [keySources] in keySources.read($0, $1) },
                tell: { [events] in events.note($0) }, flushEvents: { [events] in events.flush() }),
            log: log)
        door = ShardDoor(to: shard)
        taps = MessageTaps(listeners: bound.listeners)
        taps.mirror = try HEPMirror(settings.hep, on: loop, log: log)
        taps.spans = try CallSpans(settings.otlp, on: loop, log: log)
        taps.whenChanged = { [weak shard, weak taps, loop] in
            // A job on the loop changes the shard's ``MessageTaps``, because the shard may be copying a message now.
            loop.post { [weak shard, weak taps] in
                guard let taps else { return }
                shard?.assumeIsolated { $0.copies(to: taps.isEmpty ? nil : taps) }
            }
        }
        try await connect()
    }

    /// Runs the daemon until a signal or an operator stops it.
    package func run() async throws(StartError) {
        let (log, notices) = (log, notices)
        let listening = listeners.map { "\($0.transport.parameterName):\($0.bound)" }.joined(separator: " ")
        loop.post {
            log.notice(
                "started and accepts requests",
                [.version: .text(Version.current), .listener: .text(listening)])
            do throws(SystemError) {
                try notices?.started(listening: listening)
            } catch {
                log.error("the daemon cannot send watchdog messages to systemd", [.error: .described(error)])
            }
        }
        do throws(SystemError) {
            try await loop.runOnThread(name: "sippushd")
        } catch {
            store.close()
            throw StartError("cannot start a thread: \(error)")
        }
        users.close()
        keySources.close()
        store.close()
        log.notice("the daemon has stopped")
    }

    // MARK: Start

    private func connect() async throws(StartError) {
        let (shard, door, loop, events) = (shard, door, loop, events)
        streams.start(for: shard, listeners: bound.listeners)
        api.wrongLogins.count(with: door)
        admin.wrongLogins.count(with: door)
        api.load = ServiceLoad { shard.assumeIsolated { $0.refusesService() } }
        store.finished = { results in shard.onLoop(with: results) { $0.committed($1) } }
        push.happened = { event in shard.onLoop(with: event) { $0.pushHappened($1) } }
        let contacts = DeadTokenRecall(store: store, door: door, loop: loop)
        var recall: FeedbackService.Recall?
        if node != nil { recall = { await contacts.recall($0) } }
        do throws(PushSetupError) {
            feedback = try FeedbackService(settings: settings.push, loop: loop, log: log, recall: recall) {
                dead, cursor, limit in
                await door.ask(.everything) { engine, now in
                    engine.tokensReportedDead(dead, from: cursor, limit: limit, now: now)
                }
            }
        } catch {
            throw StartError(error.description)
        }
        let provisioning = try await ProvisioningService(
            plan: settings.provisioningPlan(listeners: listeners) { [weak self] in self?.api.endpoints ?? [] },
            realms: settings.userRealms, store: store, door: door, loop: loop, log: log)
        let nodeQuestions = questions(to: door)
        let operators = OperatorServices(
            door: door, store: store, feedback: feedback, loop: loop, log: log, keys: keys,
            apps: services.apps, taps: taps, realms: settings.userRealms, timeline: settings.push.timeline,
            provisioning: provisioning,
            figures: { [weak self] in self?.figures ?? CounterSet() },
            certificates: { [weak self] in self?.certificates?.ends ?? [] },
            credentials: { [weak self] in self?.credentials?.standings ?? [:] },
            drain: { [weak self] time in
                // The drain is posted to the loop, because any thread can run the closure.
                await withCheckedContinuation { asker in
                    loop.post { [weak self] in
                        loop.startTask { [weak self] _ in
                            asker.resume(returning: await self?.drain(within: time) ?? 0)
                        }
                    }
                }
            },
            events: { [weak self] in self?.events.shortcoming }, nodes: nodeQuestions)
        let tables = OperatorTables(
            keys: keys, services: services, provisioning: provisioning, operators: operators, store: store, on: loop,
            log: log)
        operatorTables = tables
        let ownEndpoints: () -> [Endpoint] = { [weak self] in
            guard let self else { return [] }
            return api.endpoints + admin.endpoints + listeners.map(\.bound)
        }
        push.setOwnEndpoints(ownEndpoints)
        do {
            try store.start()
            memory = try MemoryGuard(setting: settings.limits.memory, streams, on: loop, log: log)
            certificates = try CertificateWatch(on: loop, log: log)
            certificates?.watch(settings)
            push.start()
            credentials = try CredentialWatch(push, on: loop, log: log)
            credentials?.start(isOn: settings.push.triesCredentials)
            try dialogKeys.start(through: door, on: loop)
            do {
                control = try ControlService(
                    path: settings.control, loop: loop, router: operators.controlRouter(), log: log)
            } catch {
                throw StartError.cannotListen(on: "the control socket \(settings.control)", isFile: true, error)
            }
            if node != nil {
                let service = try NodeService(loop: loop, router: operators.nodeRouter(), log: log)
                streams.servesNode = { [weak service] stream in service?.serve(stream) }
                nodeService = service
            }
            signals = [
                try SignalWatch(.terminate, on: loop) { [weak self] in
                    loop.startTask { [weak self] _ in await self?.endSignalled() }
                },
                try SignalWatch(.interrupt, on: loop) { [weak self] in
                    loop.startTask { [weak self] _ in await self?.endSignalled() }
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
        if !settings.admin.listen.isEmpty {
            let gate = admin.offersPage(under: settings.admin.names)
            PageFiles(behind: gate).register(in: &admin.router)
            let live = LiveView(
                door: door, store: store, taps: taps, providers: { await operators.providers() },
                nodes: nodeQuestions, loop: loop, log: log)
            live.register(in: &admin.router)
            self.live = live
            let plots = PlotRecorder(door: door, store: store, loop: loop)
            plots.register(in: &admin.router)
            self.plots = plots
            services.registerForOperators(in: &admin.router, door: door)
        }
        events.ownEndpoints = ownEndpoints
        try await services.register(
            in: api, door: door, events: { [events] in events.shortcoming }, ownEndpoints: ownEndpoints)
        provisioning.register(in: api)
        if let path = settings.webSocket.apiPath, let upgrade = bound.apiUpgrade(settings, streams) {
            api.takesWebSockets(at: path, upgrade)
        }
        try api.listen()
        try admin.listen()
        try checkHandover()
        let sockets = bound.sockets
        notices = ServiceNotices(to: manager, on: loop, shard: shard)
        let (taps, live, plots) = (taps, live, plots)
        do {
            try plots?.start()
        } catch {
            throw StartError("cannot create a timer: \(error)")
        }
        let (node, feedback) = (node, feedback)
        loop.post {
            shard.assumeIsolated { shard in
                if let node {
                    shard.joinCluster(
                        at: node.place.string, changed: { tables.changed($0) },
                        duties: { feedback?.dutiesChanged(isHeld: $0) })
                }
                // The calls of the earlier run can already have caused events.
                shard.reportsEvents(events.isOn)
                shard.start(sockets: sockets)
                if let live, let plots {
                    shard.shows(timeline: {
                        live.traced($0)
                        plots.traced($0)
                    })
                }
                if !taps.isEmpty { shard.copies(to: taps) }
            }
            events.start()
            taps.mirror?.start()
        }
    }

    /// Asks the other nodes, from the address of the nodes' listener; `nil` without a cluster.
    private func questions(to door: ShardDoor) -> NodeQuestions? {
        guard let node, let identity = settings.cluster.identity else { return nil }
        let address = bound.nodeListener?.bound.address
        return NodeQuestions(
            of: node.name, identity: identity, source: address.flatMap { $0.isUnspecified ? nil : $0 }, door: door,
            loop: loop, log: log)
    }

    /// Checks that the settings name each socket that the service manager passed. A socket that systemd kept from an
    /// earlier run need not be in the settings.
    private func checkHandover() throws(StartError) {
        guard let stray = loop.handover.unclaimed.first(where: { !$0.isOwn }) else { return }
        let name = stray.name.isEmpty ? "" : " (\(stray.name))"
        throw StartError(
            "the service manager passed a socket that the settings do not name: \(stray.place)\(name); listen, api.listen, admin.listen and control must name the same addresses and files as the .socket unit, including 0.0.0.0 and [::]"
        )
    }

    /// The metrics of all parts except the engine.
    private var figures: CounterSet {
        var figures = store.figures
        for part in [streams.figures, api.figures, admin.figures, taps.figures, events.figures] { figures.merge(part) }
        figures.count(.logLineDropped, by: UInt64(log.droppedLines))
        for socket in bound.sockets.values {
            figures.count(.udpReceiveDropped, by: socket.receiveDrops)
            figures.count(.udpSendDropped, by: socket.counters.dropped)
        }
        return figures
    }

    // MARK: Reload

    private func reloadTLS() {
        reloadCertificate { () throws(StartError) in try tls.load(settings.tls) }
        reloadCertificate { () throws(StartError) in try tls.load(settings.cluster) }
        bound.replaceTLS(tls)
    }

    private func reloadCertificate(_ load: () throws(StartError) -> Void) {
        do throws(StartError) {
            try load()
        } catch {
            log.error(
                "the certificate was not reloaded, so the old certificate stays in use",
                [.reason: .text(error.description)])
        }
    }

    /// Opens a new link to the HEP collector, with the present settings and files.
    private func reloadTraces() {
        do throws(StartError) {
            taps.replaceMirror(by: try HEPMirror(settings.hep, on: loop, log: log))
        } catch {
            return log.error(
                "the HEP settings were not applied, so the old ones stay in use", [.reason: .text(error.description)])
        }
        taps.whenChanged()
    }

    /// Uses the present settings and files for spans, and keeps waiting spans.
    private func reloadSpans() {
        do throws(StartError) {
            if let spans = taps.spans {
                if try !spans.change(to: settings.otlp) { taps.endSpans() }
            } else {
                taps.spans = try CallSpans(settings.otlp, on: loop, log: log)
            }
        } catch {
            return log.error(
                "the OTLP settings were not applied, so the old ones stay in use", [.reason: .text(error.description)])
        }
        taps.whenChanged()
    }

    /// Sends events from now on with the present settings and files. The events that wait are kept.
    private func reloadEvents() {
        do throws(StartError) {
            try events.change(to: settings.events)
        } catch {
            log.error(
                "the settings of events were not applied, so the old ones stay in use",
                [.reason: .text(error.description)])
        }
        shard.assumeIsolated { $0.reportsEvents(events.isOn) }
        events.start()
    }

    /// Reads the settings again after SIGHUP, and applies the settings that can change while the daemon runs. If a
    /// changed setting needs a restart, the log reports the setting.
    private func reload() async {
        notices?.reloads()
        defer { notices?.reloaded() }
        var changed: DaemonSettings
        do {
            changed = try DaemonSettings(contentsOf: settingsPath)
        } catch {
            log.error(
                "the settings were not reloaded, so the old settings stay in use", [.reason: .text(error.description)])
            return
        }
        // A removed domain is served until the restart, but is not one of the remaining domains.
        changed.keepTenants(of: settings)
        for key in settings.reload(from: changed) {
            log.warning("a changed setting takes effect only after a restart", [.setting: .text(key)])
        }
        log.setLevel(settings.log.level)
        push.reload(settings.push)
        feedback?.settingsChanged(push.settings)
        let engineSettings = settings.engineSettings(with: push)
        let keys = push.setup.credentials
        await door.ask(.everything) { engine, now in
            engine.settingsChanged(engineSettings, now: now)
            engine.credentialsChanged(keys, now: now)
        }
        reloadTLS()
        reloadTraces()
        reloadSpans()
        reloadEvents()
        services.reloadCertificates()
        certificates?.watch(settings)
        for credential in Credential.isPassed ? certificates?.credentials ?? [] : [] {
            log.notice(
                "SIGHUP does not reload this certificate, because systemd passes a renewed certificate to the daemon only at a restart",
                [.path: .text(credential)])
        }
        credentials?.start(isOn: settings.push.triesCredentials)
        let flowLimits = settings.flowLimits(descriptors: descriptors)
        streams.limitsChanged(flowLimits)
        bound.limitsChanged(flowLimits)
        api.reloadCertificate()
        admin.reloadCertificate()
        admin.gate?.namesChanged(settings.admin.names)
        log.notice("settings reloaded", [.path: .text(settingsPath)])
    }
}
