import Timekeeping

/// One server of a push provider, as one app uses it. Pushes of other apps do not wait here.
final class PushServer {
    let app: PushApp
    let standing: Standing
    var queue: PushQueue
    /// The gate before the queue. Only notifications pass it.
    var gate: NotificationGate
    /// Whether waiting pushes are being started now. Events meanwhile must not start them again.
    var isDraining = false
    /// Whether notifications are being let through the gate now. Events meanwhile must not start this again.
    var isOpening = false
    /// The number of pushes at this server, including those between two tries.
    var pushes = 0
    /// The number of a server that tokens name; `nil` for the app's own server.
    let number: Int?

    /// The push statistics of an app, at all its servers.
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

/// All servers: one for each app, and one for each server that the app's tokens name, created on demand.
///
/// Phones name the servers in tokens, so their number is limited. A push without a free place uses the app's own
/// server.
struct PushServers {
    /// The maximum number of simultaneous pushes, including those between two tries.
    private(set) var limit = 0
    /// The app's own servers, by the app's place in the directory.
    private var own: [PushServer] = []
    private var byOrigin: [Origin: PushServer] = [:]
    /// Numbers that no server has. They are reused, so that connection groups are limited, too.
    private var freeNumbers = Array(0..<Self.originLimit)

    private struct Origin: Hashable {
        let app: PushApp.ID
        let origin: String
    }

    private static let originLimit = 64

    /// - Parameters:
    ///   - directory: the apps.
    ///   - plainLimit: the maximum number of parallel requests to a server without TLS, where each request needs a
    ///     connection.
    init(_ directory: PushDirectory, plainLimit: Int) {
        for app in directory.apps {
            var limits = app.limits
            // Pushes must wait here, where they can be dropped, and not for a connection.
            if app.baseURL?.hasPrefix("http:") == true { limits.requests = min(limits.requests, plainLimit) }
            own.append(PushServer(app: app, PushServer.Standing(), limits))
            limit += Self.limit(of: app)
        }
    }

    var all: [PushServer] { byOrigin.isEmpty ? own : own + byOrigin.values }

    /// When the next push may probe whether its server is back. In the distant future if no push waits for that.
    var nextProbe: Instant {
        var next = Instant.distantFuture
        for server in own { if let probe = server.queue.nextProbe { next = min(next, probe) } }
        for server in byOrigin.values { if let probe = server.queue.nextProbe { next = min(next, probe) } }
        return next
    }

    /// The app's own server.
    func server(of app: PushApp.ID) -> PushServer { own[app.index] }

    /// The server that a token names; the app's own if the token names none or no number is free.
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

    /// Removes a server without pushes and returns its number. A server that is down is removed only if no other can
    /// be, because its state would be lost.
    private mutating func numberOfIdleServer() -> Int? {
        let idle = byOrigin.filter { $0.value.pushes == 0 && $0.value.queue.inFlight == 0 }
        guard let (key, server) = idle.first(where: { !$0.value.queue.isBreakerOpen }) ?? idle.first else { return nil }
        byOrigin[key] = nil
        limit -= Self.limit(of: server.app)
        return server.number
    }

    private static func limit(of app: PushApp) -> Int { 2 * (app.limits.requests + app.limits.queue) }

    /// The push statistics of each app, in the order of the directory.
    var reports: [(app: PushApp, report: PushAppReport)] {
        own.map { server in
            let others = byOrigin.values.filter { $0.app.id == server.app.id }
            var report = server.standing.report
            report.queued = others.reduce(server.waiting) { $0 + $1.waiting }
            report.inFlight = others.reduce(server.queue.inFlight) { $0 + $1.queue.inFlight }
            // If tokens name many servers, the app is unreachable only if all of them are.
            report.isReachable =
                !(others.isEmpty ? server.queue.isBreakerOpen : others.allSatisfy(\.queue.isBreakerOpen))
            return (server.app, report)
        }
    }
}
