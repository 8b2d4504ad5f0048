import Timekeeping

/// A server of a push provider, for the pushes of one app. Pushes of other apps do not wait here.
final class PushServer {
    let app: PushApp
    let standing: Standing
    var queue: PushQueue
    /// The gate for notifications. Calls and lists of missed calls do not pass it.
    var gate: NotificationGate
    /// Whether waiting pushes are being started now. Events in the meantime must not start them a second time.
    var isDraining = false
    /// Whether notifications are being let through the gate now. Events in the meantime must not do the same a second
    /// time.
    var isOpening = false
    /// The number of active pushes to this server, including pushes that pause between tries.
    var pushes = 0
    /// The number of the server, if tokens name it; `nil` for the app's own server.
    let number: Int?

    /// The push statistics of an app, over all its servers.
    final class Standing {
        /// Whether the provider has accepted a push of the app.
        var isProven = false
        var report = PushAppReport()
    }

    /// How many pushes wait, in the queue and at the gate.
    var waiting: Int { queue.queued + gate.waiting }

    fileprivate init(app: PushApp, _ standing: Standing, _ limits: ProviderLimits, number: Int? = nil) {
        self.app = app
        self.standing = standing
        self.number = number
        queue = PushQueue(limits)
        gate = NotificationGate(limits)
    }
}

/// All servers of push providers: one for each app, and one for each server that tokens of the app name, created on
/// demand.
///
/// Phones name these servers in tokens, so the number of servers is limited. If there are too many servers, a push is
/// sent to the app's own server.
struct PushServers {
    /// The maximum number of active pushes at a time, including pushes that pause between tries.
    private(set) var limit = 0
    /// The app's own servers, by the app's index in the list of apps.
    private var own: [PushServer] = []
    private var byOrigin: [Origin: PushServer] = [:]
    /// The numbers that no server has now. Numbers are used again, so that the number of connection groups is limited
    /// too.
    private var freeNumbers = Array(0..<Self.originLimit)

    private struct Origin: Hashable {
        let app: PushApp.ID
        let origin: String
    }

    private static let originLimit = 64

    /// Creates the apps' own servers.
    ///
    /// - Parameters:
    ///   - directory: the apps.
    ///   - plainLimit: the maximum number of parallel requests to a server without TLS, where each request needs a
    ///     connection.
    init(_ directory: PushDirectory, plainLimit: Int) {
        for app in directory.apps {
            var limits = app.limits
            // Pushes must wait in the queue, where they can be withdrawn, and not for a connection.
            if app.baseURL?.hasPrefix("http:") == true { limits.requests = min(limits.requests, plainLimit) }
            own.append(PushServer(app: app, PushServer.Standing(), limits))
            limit += Self.limit(of: app)
        }
    }

    var all: [PushServer] { byOrigin.isEmpty ? own : own + byOrigin.values }

    /// The time at which the next push may probe whether its server answers again; in the distant future if no push
    /// waits for that.
    var nextProbe: Instant {
        var next = Instant.distantFuture
        for server in own { if let probe = server.queue.nextProbe { next = min(next, probe) } }
        for server in byOrigin.values { if let probe = server.queue.nextProbe { next = min(next, probe) } }
        return next
    }

    /// The app's own server.
    func server(of app: PushApp.ID) -> PushServer { own[app.index] }

    /// The server that a token names; the app's own server if the token names none or if there are too many servers.
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

    /// Removes a server without active pushes and returns its number. A server that is down is removed last, because
    /// its state would be lost.
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
            // If tokens name many servers, the app counts as unreachable only if all these servers are unreachable.
            report.isReachable =
                !(others.isEmpty ? server.queue.isBreakerOpen : others.allSatisfy(\.queue.isBreakerOpen))
            return (server.app, report)
        }
    }
}
