import PushDelivery

/// The way to one server of an app's provider, which no other app's pushes are on.
final class PushWay {
    let app: PushApp
    let standing: Standing
    var lane: PushLane
    /// Before the lane, for notifications alone.
    var gate: NotificationGate
    let route: ProviderRoute
    /// Those who wait are being started: the lane is not to be emptied from within.
    var isDraining = false
    /// The same of the gate.
    var isOpening = false
    /// Pushes that are on it, in pauses too.
    var deliveries = 0
    /// Among the ways to the servers that tokens name.
    fileprivate let slot: Int?

    /// How an app fares, over all its ways.
    final class Standing {
        /// Its provider has taken a push of ours.
        var isProven = false
        var report = PushAppReport()
    }

    /// Those who wait, in the lane and before it.
    var queued: Int { lane.queued + gate.waiting }

    fileprivate init(app: PushApp, _ standing: Standing, _ lane: LaneSettings, slot: Int? = nil) {
        self.app = app
        self.standing = standing
        self.slot = slot
        self.lane = PushLane(lane)
        gate = NotificationGate(lane)
        // Slots are used again, so that there are no more connection groups than slots.
        route = ProviderRoute(to: app, group: slot.map { "\(app.name) \($0)" })
    }
}

/// All ways: one for each app, and one for each server that an app's tokens name, made when it is wanted.
///
/// Phones name those servers, so there are only so many ways to them; what finds no place takes the app's own.
struct PushWays {
    /// Pushes at a time, those in pauses between two tries included.
    private(set) var limit = 0
    /// By the app's place in the directory.
    private var own: [PushWay] = []
    private var byOrigin: [Origin: PushWay] = [:]
    private var freeSlots = Array(0..<Self.originLimit)

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
            var lane = app.lane
            // What waits, waits here, where it can be dropped.
            if app.baseURL?.hasPrefix("http:") == true { lane.requests = min(lane.requests, plainLimit) }
            own.append(PushWay(app: app, PushWay.Standing(), lane))
            limit += Self.limit(of: app)
        }
    }

    var all: [PushWay] { byOrigin.isEmpty ? own : own + byOrigin.values }

    func standing(of app: PushApp) -> PushWay.Standing { own[app.id.index].standing }

    /// The way to the app's server, or to the one that a token names.
    mutating func way(of app: PushApp, to origin: String?) -> PushWay {
        let common = own[app.id.index]
        guard let origin else { return common }
        let key = Origin(app: app.id, origin: origin)
        if let known = byOrigin[key] { return known }
        guard let slot = freeSlots.popLast() ?? slotOfIdleWay() else { return common }
        let way = PushWay(app: app, common.standing, app.lane, slot: slot)
        byOrigin[key] = way
        limit += Self.limit(of: app)
        return way
    }

    /// Gives up a way that nothing is on; one whose server is down only if there is no other, for that would be forgotten.
    private mutating func slotOfIdleWay() -> Int? {
        let idle = byOrigin.filter { $0.value.deliveries == 0 && $0.value.lane.inFlight == 0 }
        guard let (key, way) = idle.first(where: { $0.value.lane.isOpen }) ?? idle.first else { return nil }
        byOrigin[key] = nil
        limit -= Self.limit(of: way.app)
        return way.slot
    }

    private static func limit(of app: PushApp) -> Int { 2 * (app.lane.requests + app.lane.queue) }

    /// How each app's pushes fare, in the order of the directory.
    var reports: [(app: PushApp, report: PushAppReport)] {
        own.map { way in
            let others = byOrigin.values.filter { $0.app.id == way.app.id }
            var report = way.standing.report
            report.queued = others.reduce(way.queued) { $0 + $1.queued }
            report.inFlight = others.reduce(way.lane.inFlight) { $0 + $1.lane.inFlight }
            // One of many servers that is down says nothing about the others.
            report.isReachable = others.isEmpty ? way.lane.isOpen : others.contains { $0.lane.isOpen }
            return (way.app, report)
        }
    }
}
