/// One server of a push provider, as one app uses it: no other app's pushes wait here.
final class PushServer {
    let app: PushApp
    let standing: Standing
    var queue: PushQueue
    /// Before the queue, for notifications alone.
    var gate: NotificationGate
    /// Those who wait are being started: the queue is not to be emptied from within.
    var isDraining = false
    /// The same of the gate.
    var isOpening = false
    /// Pushes to it, those in pauses too.
    var pushes = 0
    /// Among the servers that tokens name; `nil`: the app's own.
    let number: Int?

    /// How an app fares, at all its servers.
    final class Standing {
        /// Its provider has taken a push of ours.
        var isProven = false
        var report = PushAppReport()
    }

    /// Those who wait, in the queue and before it.
    var waiting: Int { queue.queued + gate.waiting }

    fileprivate init(app: PushApp, _ standing: Standing, _ limits: PushLimits, number: Int? = nil) {
        self.app = app
        self.standing = standing
        self.number = number
        queue = PushQueue(limits)
        gate = NotificationGate(limits)
    }
}

/// All servers: one for each app, and one for each that an app's tokens name, made when it is wanted.
///
/// Phones name those, so there are only so many; what finds no place takes the app's own.
struct PushServers {
    /// Pushes at a time, those in pauses between two tries included.
    private(set) var limit = 0
    /// By the app's place in the directory.
    private var own: [PushServer] = []
    private var byOrigin: [Origin: PushServer] = [:]
    /// Numbers are used again, so that there are no more connection groups than numbers.
    private var freeNumbers = Array(0..<Self.originLimit)

    private struct Origin: Hashable {
        let app: PushApp.ID
        let origin: String
    }

    private static let originLimit = 64

    /// - Parameters:
    ///   - directory: the apps.
    ///   - plainLimit: requests under way to a server without TLS: each takes a connection.
    init(_ directory: PushDirectory, plainLimit: Int) {
        for app in directory.apps {
            var limits = app.limits
            // What waits, waits here, where it can be dropped.
            if app.baseURL?.hasPrefix("http:") == true { limits.requests = min(limits.requests, plainLimit) }
            own.append(PushServer(app: app, PushServer.Standing(), limits))
            limit += Self.limit(of: app)
        }
    }

    var all: [PushServer] { byOrigin.isEmpty ? own : own + byOrigin.values }

    /// The app's own.
    func server(of app: PushApp.ID) -> PushServer { own[app.index] }

    /// The app's own, or the one that a token names.
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

    /// Gives up a server that nothing goes to; one that is down only if there is no other, for that would be forgotten.
    private mutating func numberOfIdleServer() -> Int? {
        let idle = byOrigin.filter { $0.value.pushes == 0 && $0.value.queue.inFlight == 0 }
        guard let (key, server) = idle.first(where: { $0.value.queue.isOpen }) ?? idle.first else { return nil }
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
            // One of many servers that is down says nothing about the others.
            report.isReachable = others.isEmpty ? server.queue.isOpen : others.contains { $0.queue.isOpen }
            return (server.app, report)
        }
    }
}
