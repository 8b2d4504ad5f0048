import HTTPServer
package import HTTPServices
package import Persistence
package import ProxyRuntime
package import PushDelivery
package import PushSending
package import Reactor
package import Telemetry
package import Timekeeping

/// All operations for operators, which the control socket and the admin API share.
package struct OperatorServices {
    private let door: ShardDoor
    private let store: any ProxyStore
    private let feedback: FeedbackService?
    private let loop: EventLoop
    private let log: Log
    private let keys: APIKeyRing
    private let apps: MobileApps
    private let taps: MessageTaps
    private let realms: UserRealms
    private let timeline: TimelineSettings
    private let figures: @Sendable () -> CounterSet
    private let certificates: @Sendable () -> [(file: String, date: UnixTime)]
    private let credentials: @Sendable () -> [String: CredentialStanding]
    private let provisioning: ProvisioningService
    private let drain: @Sendable (Duration) async -> Int
    private let events: @Sendable () -> String?
    private let nodes: NodeQuestions?
    /// Lets only one request at a time change a provider's state, from the control socket or from the admin API.
    private let switches = OneAtATime()

    /// Prepares the HTTP routes for operators.
    ///
    /// The parameter `feedback` is Apple's feedback service, if the settings configure this service. The closure
    /// `figures` returns the metrics of all parts except the engine. The closure `certificates` returns the time at
    /// which each certificate expires; `credentials` returns the state of each app's credentials. The loop's thread
    /// calls the closures `figures`, `certificates` and `credentials`. The closure `drain` stops the daemon when its
    /// calls have ended or after the given time, and returns the number of calls. The closure `events` returns the reason
    /// why events do not reach the operator's receiver. The parameter `nodes` asks the other nodes of the cluster;
    /// it is `nil` without a cluster.
    package init(
        door: ShardDoor, store: any ProxyStore, feedback: FeedbackService?, loop: EventLoop,
        log: Log, keys: APIKeyRing, apps: MobileApps, taps: MessageTaps, realms: UserRealms, timeline: TimelineSettings,
        provisioning: ProvisioningService,
        figures: @escaping @Sendable () -> CounterSet,
        certificates: @escaping @Sendable () -> [(file: String, date: UnixTime)] = { [] },
        credentials: @escaping @Sendable () -> [String: CredentialStanding] = { [:] },
        drain: @escaping @Sendable (Duration) async -> Int, events: @escaping @Sendable () -> String? = { nil },
        nodes: NodeQuestions? = nil
    ) {
        (self.door, self.store, self.feedback) = (door, store, feedback)
        (self.loop, self.log, self.keys, self.apps) = (loop, log, keys, apps)
        self.taps = taps
        self.provisioning = provisioning
        (self.realms, self.timeline, self.figures, self.drain) = (realms, timeline, figures, drain)
        self.certificates = certificates
        self.credentials = credentials
        self.events = events
        self.nodes = nodes
    }

    /// The routes, which ask `nodes` about their calls and phones.
    private func routes(asking nodes: NodeQuestions?) -> ControlRoutes {
        ControlRoutes(
            door: door, store: store, realms: realms, credentials: credentials, switches: switches,
            provisioning: provisioning, nodes: nodes)
    }

    private func explainer(asking nodes: NodeQuestions?) -> Explainer {
        Explainer(door: door, store: store, taps: taps, settings: timeline, nodes: nodes)
    }

    /// The push providers with the figures and credentials of their apps.
    package func providers() async -> [ProviderReport] { await routes(asking: nil).providers() }

    /// Reads the states of the push providers from the store, and switches the providers that another node has switched.
    package func readProviders() async throws(StoreError) { try await routes(asking: nil).readProviders() }

    package func register(in router: inout ServiceRouter) {
        SystemRoutes(loop: loop, store: store, door: door, events: events).register(in: &router)
        routes(asking: nodes).register(in: &router)
        KeyRoutes(keys: keys, domains: realms.domains, store: store, loop: loop).register(in: &router)
        MobileAppRoutes(apps: apps, store: store, loop: loop).register(in: &router)
        MetricsRoute(door: door, figures: figures, certificates: certificates).register(in: &router)
        PushTestRoute(door: door).register(in: &router)
        DrainRoute(drain: drain).register(in: &router)
        provisioning.registerForOperators(in: &router)
        explainer(asking: nodes).register(in: &router)
        WakeReportRoute(store: store, loop: loop).register(in: &router, scope: .adminRead)
        router.add("POST", "/v1/feedback/pull", domains: .wholeDaemon, .feedback) {
            [feedback] call throws(ServiceProblem) in
            call.changes("dead tokens of Apple's feedback service")
            guard let feedback else { throw ServiceProblem(409, "push.apns.feedback.endpoint is not set") }
            feedback.pull { call.answer($0) }
        }
    }

    /// Returns the HTTP routes of the control socket. The control socket has all routes of the admin API, and routes
    /// for backups, traces, and the transfer of users with their hashes. Remote clients may not use the additional
    /// routes of the control socket.
    package func controlRouter() -> ServiceRouter {
        var router = ServiceRouter()
        register(in: &router)
        BackupService(store: store, loop: loop, log: log).register(in: &router)
        TraceRoutes(taps: taps, loop: loop).register(in: &router)
        UserTransfer(routes: routes(asking: nil))
            .register(in: &router)
        return router
    }

    /// Returns the routes by which other nodes ask this node. The node answers only for itself.
    package func nodeRouter() -> ServiceRouter {
        var router = ServiceRouter()
        routes(asking: nil).registerForNodes(in: &router)
        explainer(asking: nil).registerForNodes(in: &router)
        return router
    }
}
