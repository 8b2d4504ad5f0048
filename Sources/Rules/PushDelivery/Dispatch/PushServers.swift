import Timekeeping

/// One server of a push provider, with the queue of one app's pushes to the server.
final class PushServer {
    let app: PushApp
    let standing: Standing
    var queue: PushQueue
    /// The limit on the notifications in the queue. Only notifications pass the gate; calls and lists of missed calls
    /// enter the queue directly.
    var gate: NotificationGate
    /// Whether a loop of the dispatcher is starting the waiting pushes. An event inside the loop that starts pushes
    /// does not start a second loop.
    var isDraining = false
    /// Whether a loop of the dispatcher is moving notifications into the queue. An event inside the loop that moves
    /// notifications does not start a second loop.
    var isOpening = false
    /// The number of active pushes to the server, including pushes that pause between tries.
    var pushes = 0
    /// The number of a server that push tokens name; `nil` for the app's own server.
    let number: Int?

    /// The push statistics of an app at all its servers together.
    final class Standing {
        /// Whether the provider has accepted a push of the app.
        var isProven = false
        var report = PushAppReport()
    }

    /// The number of waiting pushes, including notifications that wait outside the queue.
    var waiting: Int { queue.queued + gate.waiting }

    fileprivate init(app: PushApp, _ standing: Standing, _ limits: ProviderLimits, number: Int? = nil) {
        self.app = app
        self.standing = standing
        self.number = number
        queue = PushQueue(limits)
        gate = NotificationGate(limits)
    }
}

/// All push servers: one for each app, and one for each server that push tokens name, created on demand.
///
/// The number of push servers is limited, because phones choose the servers in their tokens. If too many servers exist,
/// pushes go to the app's own server.
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

    private static let originLimit = 64

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
            limit += Self.limit(of: app)
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

    /// The server that a token names; the app's own server if the token names none, or if too many servers exist.
    mutating func server(of app: PushApp.ID, at origin: String?) -> PushServer {
        let common = own[app.index]
        guard let origin else { return common }
        let key = Origin(app: app, origin: origin)
        if let known = byOrigin[key] { return known }
        guard let number = freeNumbers.popLast() ?? numberOfIdleServer() else { return common }
        let server = PushServer(app: common.app, common.standing, common.app.limits, number: number)
        byOrigin[key] = server
        limit += Self.limit(of: common.app)
        return server
    }

    /// Removes a server without active pushes and returns its number. Servers with an open circuit breaker are removed
    /// last, because the state of the breaker would be lost.
    private mutating func numberOfIdleServer() -> Int? {
        let idle = byOrigin.filter { $0.value.pushes == 0 && $0.value.queue.inFlight == 0 }
        guard let (key, server) = idle.first(where: { !$0.value.queue.isBreakerOpen }) ?? idle.first else { return nil }
        byOrigin[key] = nil
        limit -= Self.limit(of: server.app)
        return server.number
    }

    private static func limit(of app: PushApp) -> Int { 2 * (app.limits.requests + app.limits.queue) }

    /// The push statistics of each app, in the order of the list of apps.
    var reports: [(app: PushApp, report: PushAppReport)] {
        own.map { server in
            let others = byOrigin.values.filter { $0.app.id == server.app.id }
            var report = server.standing.report
            report.queued = others.reduce(server.waiting) { $0 + $1.waiting }
            report.inFlight = others.reduce(server.queue.inFlight) { $0 + $1.queue.inFlight }
            // An app with several servers counts as unreachable only while all its servers are unreachable.
            report.isReachable =
                !(others.isEmpty ? server.queue.isBreakerOpen : others.allSatisfy(\.queue.isBreakerOpen))
            return (server.app, report)
        }
    }
}
