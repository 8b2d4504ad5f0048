import Timekeeping

/// One server of a push provider, as one app uses it. Pushes of other apps do not wait here.
final class PushServer {
    let app: PushApp
    let standing: Standing
    var queue: PushQueue
    /// The gate before the queue, which only notifications pass.
    var gate: NotificationGate
    /// Whether the pushes that wait are being started just now. What happens meanwhile must not start them again.
    var isDraining = false
    /// Whether notifications are being let through the gate just now; for the same reason.
    var isOpening = false
    /// How many pushes go to it, those in a pause between two tries included.
    var pushes = 0
    /// The number among the servers that tokens name; `nil` for the app's own server.
    let number: Int?

    /// How the pushes of an app fare, at all its servers.
    final class Standing {
        /// Whether the provider has accepted a push of the app.
        var isProven = false
        var report = PushAppReport()
    }

    /// How many pushes wait, in the queue and at the gate.
    var waiting: Int { queue.queued + gate.waiting }

    fileprivate init(app: PushApp, _ standing: Standing, _ limits: PushLimits, number: Int? = nil) {
        self.app = app
        self.standing = standing
        self.number = number
        queue = PushQueue(limits)
        gate = NotificationGate(limits)
    }
}

/// All servers: one for each app, and one for each server that tokens of the app name, which is made when it is needed.
///
/// Because phones name the latter, their number is limited. A push that finds no place takes the app's own server.
struct PushServers {
    /// How many pushes there may be at a time, those in a pause between two tries included.
    private(set) var limit = 0
    /// The app's own servers, by the app's place in the directory.
    private var own: [PushServer] = []
    private var byOrigin: [Origin: PushServer] = [:]
    /// Numbers that no server has. They are used again, so that there are no more connection groups than numbers.
    private var freeNumbers = Array(0..<Self.originLimit)

    private struct Origin: Hashable {
        let app: PushApp.ID
        let origin: String
    }

    private static let originLimit = 64

    /// - Parameters:
    ///   - directory: the apps.
    ///   - plainLimit: how many requests may be under way to a server without TLS, where each needs a connection.
    init(_ directory: PushDirectory, plainLimit: Int) {
        for app in directory.apps {
            var limits = app.limits
            // Pushes are to wait here, where they can be dropped, and not for a connection.
            if app.baseURL?.hasPrefix("http:") == true { limits.requests = min(limits.requests, plainLimit) }
            own.append(PushServer(app: app, PushServer.Standing(), limits))
            limit += Self.limit(of: app)
        }
    }

    var all: [PushServer] { byOrigin.isEmpty ? own : own + byOrigin.values }

    /// When a push may find out whether its server is back; in the distant future while none waits for that.
    var nextProbe: Instant {
        var next = Instant.distantFuture
        for server in own { if let probe = server.queue.nextProbe { next = min(next, probe) } }
        for server in byOrigin.values { if let probe = server.queue.nextProbe { next = min(next, probe) } }
        return next
    }

    /// The app's own server.
    func server(of app: PushApp.ID) -> PushServer { own[app.index] }

    /// The server that a token names or, without a name or a free number, the app's own.
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

    /// Gives up a server that no push goes to, and returns its number. One that is down is given up only if there is no
    /// other, because that it is down would be forgotten.
    private mutating func numberOfIdleServer() -> Int? {
        let idle = byOrigin.filter { $0.value.pushes == 0 && $0.value.queue.inFlight == 0 }
        guard let (key, server) = idle.first(where: { !$0.value.queue.isBreakerOpen }) ?? idle.first else { return nil }
        byOrigin[key] = nil
        limit -= Self.limit(of: server.app)
        return server.number
    }

    private static func limit(of app: PushApp) -> Int { 2 * (app.limits.requests + app.limits.queue) }

    /// How each app's pushes fare, in the order of the directory.
    var reports: [(app: PushApp, report: PushAppReport)] {
        own.map { server in
            let others = byOrigin.values.filter { $0.app.id == server.app.id }
            var report = server.standing.report
            report.queued = others.reduce(server.waiting) { $0 + $1.waiting }
            report.inFlight = others.reduce(server.queue.inFlight) { $0 + $1.queue.inFlight }
            // If one of many servers is down, that says nothing about the others.
            report.isReachable =
                !(others.isEmpty ? server.queue.isBreakerOpen : others.allSatisfy(\.queue.isBreakerOpen))
            return (server.app, report)
        }
    }
}
