import Timekeeping

/// One server of a push provider, with the queue of one app's pushes to the server.
final class PushServer {
    let app: PushApp
    let standing: Standing
    var queue: PushQueue
    /// The limit on the notifications in the queue. Only notifications pass the gate; calls and lists of missed calls
    /// enter the queue directly.
    var gate: NotificationGate
    /// Whether a loop of the dispatcher is starting the waiting pushes. An event inside this loop starts no second loop.
    var isDraining = false
    /// Whether a loop of the dispatcher is moving notifications into the queue. An event inside this loop starts no
    /// second loop.
    var isOpening = false
    /// The number of active pushes to the server, including pushes that pause between tries.
    var pushes = 0
    /// The number of a server that push tokens name; `nil` for the app's own server.
    let number: Int?
    /// The server that a phone has chosen, without its scheme; `nil` if the settings name the server.
    let chosenHost: String?

    /// The push statistics of an app, for all its servers together. A server that a phone has chosen has its own
    /// statistics, so that its answers do not change the state of other servers.
    final class Standing {
        /// Whether the provider has accepted a push of the app.
        var isProven = false
        var report = PushAppReport()
    }

    /// The number of waiting pushes, including notifications that wait outside the queue.
    var waiting: Int { queue.queued + gate.waiting }

    fileprivate init(
        app: PushApp, _ standing: Standing, _ limits: ProviderLimits, number: Int? = nil, chosenHost: String? = nil
    ) {
        self.app = app
        self.standing = standing
        self.number = number
        self.chosenHost = chosenHost
        queue = PushQueue(limits, rate: app.chosenHosts?.rate)
        gate = NotificationGate(limits)
    }

    /// The maximum number of active pushes, including pushes that pause between tries.
    var limit: Int { Self.limit(of: app) }

    static func limit(of app: PushApp) -> Int { 2 * (app.limits.requests + app.limits.queue) }
}

/// All push servers: one for each app, and one for each server that push tokens name, created on demand.
///
/// Tokens name many servers, so the daemon limits the number of servers. If there are too many servers, pushes go to
/// the app's own server. Servers that phones choose have a limit of their own. If this limit is reached, a push to a
/// further server is refused (T46.7).
struct PushServers {
    /// The maximum number of active pushes to all servers together, including pushes that pause between tries.
    private(set) var limit = 0
    /// The apps' own servers, each at its app's index in the list of apps.
    private var own: [PushServer] = []
    private var byOrigin: [Origin: PushServer] = [:]
    /// The server numbers that no push server uses. Numbers are reused, which also limits the number of connection
    /// groups.
    private var freeNumbers = Array(0..<Self.originLimit)

    private struct Origin: Hashable {
        let app: PushApp.ID
        let origin: String
    }

    /// The numbers for servers that phones choose. They follow the numbers of the servers in the settings.
    private var freeChosenNumbers = Array(Self.originLimit..<Self.originLimit + Self.chosenLimit)

    private static let originLimit = 64
    /// The maximum number of servers that phones choose and that the daemon remembers.
    static let chosenLimit = 256

    /// Creates the servers of the apps that have their own push server.
    ///
    /// - Parameters:
    ///   - directory: the apps in the settings.
    ///   - plainLimit: the maximum number of parallel requests to a server without TLS, because each such request needs
    ///     a connection.
    init(_ directory: PushDirectory, plainLimit: Int) {
        for app in directory.apps {
            var limits = app.limits
            // Without TLS, each parallel request needs its own connection. Pushes above the limit wait in the queue,
            // where the daemon can still withdraw them.
            if app.baseURL?.hasPrefix("http:") == true { limits.requests = min(limits.requests, plainLimit) }
            own.append(PushServer(app: app, PushServer.Standing(), limits))
            limit += PushServer.limit(of: app)
        }
    }

    var all: [PushServer] { byOrigin.isEmpty ? own : own + byOrigin.values }

    /// The next time at which a push may be sent as a probe of its server; if no push waits for a probe, the distant
    /// future.
    var nextProbe: Instant {
        var next = Instant.distantFuture
        for server in own { if let probe = server.queue.nextProbe { next = min(next, probe) } }
        for server in byOrigin.values { if let probe = server.queue.nextProbe { next = min(next, probe) } }
        return next
    }

    /// The push app's own server.
    func server(of app: PushApp.ID) -> PushServer { own[app.index] }

    /// The server that a token names; the app's own server if the token names no server, or if too many servers exist.
    /// If phones have chosen too many servers with active pushes, the result is `nil`.
    mutating func server(of app: PushApp.ID, at origin: String?) -> PushServer? {
        let common = own[app.index]
        guard let origin else { return common }
        let key = Origin(app: app, origin: origin)
        if let known = byOrigin[key] { return known }
        guard common.app.chosenHosts == nil else { return chosenServer(common, key) }
        guard let number = freeNumbers.popLast() ?? numberOfIdleServer(isChosen: false) else { return common }
        let server = PushServer(app: common.app, common.standing, common.app.limits, number: number)
        byOrigin[key] = server
        limit += server.limit
        return server
    }

    private mutating func chosenServer(_ common: PushServer, _ key: Origin) -> PushServer? {
        guard let number = freeChosenNumbers.popLast() ?? numberOfIdleServer(isChosen: true) else { return nil }
        let server = PushServer(
            app: common.app, PushServer.Standing(), common.app.limits, number: number,
            chosenHost: String(key.origin.dropFirst("https://".count)))
        byOrigin[key] = server
        limit += server.limit
        return server
    }

    /// Removes a server without active pushes and returns its number. Servers with an open breaker are removed last,
    /// because the state of the breaker would be lost. The counts of a removed server stay in the counts of the app.
    private mutating func numberOfIdleServer(isChosen: Bool) -> Int? {
        let idle = byOrigin.filter {
            ($0.value.chosenHost != nil) == isChosen && $0.value.pushes == 0 && $0.value.queue.inFlight == 0
        }
        let closed = idle.first { !$0.value.queue.breaker.isOpen }
        guard let (key, server) = closed ?? idle.first else { return nil }
        byOrigin[key] = nil
        limit -= server.limit
        if isChosen { own[server.app.id.index].standing.report.add(server.standing.report) }
        return server.number
    }

    /// Adds the servers that phones chose to the report of their app. The state of such a server does not change the
    /// state of the app, because the server matters only to its own users.
    private func describe(_ servers: [PushServer], in report: inout PushAppReport) {
        for server in servers { report.add(server.standing.report) }
        report.isReachable = true
        report.hostCount = servers.count
        let busiest = servers.sorted { left, right in
            let (one, other) = (left.standing.report, right.standing.report)
            guard one.accepted == other.accepted else { return one.accepted > other.accepted }
            guard one.sent == other.sent else { return one.sent > other.sent }
            return left.chosenHost ?? "" < right.chosenHost ?? ""
        }
        report.hosts = busiest.prefix(PushHostReport.limit).map { server in
            PushHostReport(server.chosenHost ?? "", server.standing.report, server.queue, queued: server.waiting)
        }
    }

    /// The push statistics of each app, in the order of the list of apps.
    var reports: [(app: PushApp, report: PushAppReport)] {
        own.map { server in
            let others = byOrigin.values.filter { $0.app.id == server.app.id }
            var report = server.standing.report
            report.queued = others.reduce(server.waiting) { $0 + $1.waiting }
            report.inFlight = others.reduce(server.queue.inFlight) { $0 + $1.queue.inFlight }
            // An app with several servers is treated as unreachable only while all its servers are unreachable.
            report.isReachable =
                !(others.isEmpty ? server.queue.breaker.isOpen : others.allSatisfy(\.queue.breaker.isOpen))
            if server.app.chosenHosts != nil { describe(others, in: &report) }
            return (server.app, report)
        }
    }
}
