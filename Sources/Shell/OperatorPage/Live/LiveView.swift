import Addressing
import Bytes
import Calling
import Collections
package import Control
import HTTPSemantics
import HTTPServer
package import HTTPServices
package import Persistence
import ProxyCore
package import ProxyRuntime
import PushDelivery
package import PushPlanning
package import Reactor
import Registration
package import Telemetry
import Timekeeping

/// Shows the state of the daemon to operators each second. All viewers get the same snapshot, which is made only once.
///
/// While no operator watches, the daemon makes no snapshots.
///
/// - The class is `@unchecked Sendable`, because only the event loop of the shard uses it.
package final class LiveView: @unchecked Sendable {
    private let door: ShardDoor
    private let store: any ProxyStore
    private let taps: MessageTaps
    private let providers: @Sendable () async -> [ProviderReport]
    private let nodes: NodeQuestions?
    private let loop: EventLoop
    private let log: Log

    private var viewers: [UInt64: Viewer] = [:]
    private var lastViewer: UInt64 = 0
    private var timer: LoopTimer?
    /// The last snapshot as an event; empty before the first snapshot.
    private var newest: [UInt8] = []
    private var counts: LiveCounts?
    private var ended = EndedCalls()
    private var isLooking = false
    private var refusals = LogRateLimit()

    package static let limit = 20
    private static let pause: Duration = .seconds(1)

    /// The open stream of one viewer.
    ///
    /// - The class is `@unchecked Sendable`, because only the event loop of the shard uses it.
    private final class Viewer: @unchecked Sendable {
        let body: HTTPBody
        /// Returns why the viewer may no longer read the stream: see ``ServiceCall/ending``.
        let ending: @Sendable () -> CallerEnd?
        /// Whether the last piece still waits for its reader, so that the viewer misses snapshots.
        var isBehind = false

        init(_ body: HTTPBody, _ ending: @escaping @Sendable () -> CallerEnd?) {
            self.body = body
            self.ending = ending
        }
    }

    /// Prepares the live view. The parameter `nodes` asks the other nodes of the cluster for their calls; it is `nil`
    /// without a cluster.
    package init(
        door: ShardDoor, store: any ProxyStore, taps: MessageTaps,
        providers: @escaping @Sendable () async -> [ProviderReport], nodes: NodeQuestions? = nil, loop: EventLoop,
        log: Log
    ) {
        (self.door, self.store, self.taps, self.providers, self.nodes) = (door, store, taps, providers, nodes)
        (self.loop, self.log) = (loop, log)
    }

    package func register(in router: inout ServiceRouter) {
        router.add("GET", "/v1/live", domains: .wholeDaemon, .leftOut) { [self] call throws(ServiceProblem) in
            try show(to: call)
        }
    }

    package var viewerCount: Int { viewers.count }

    // MARK: Viewers

    private func show(to call: ServiceCall) throws(ServiceProblem) {
        guard viewers.count < Self.limit else {
            if let suppressed = refusals.admit(now: loop.now) {
                log.warning(
                    "the live view of the web page refused a viewer, because it has its maximum number of viewers",
                    [.count: .number(Self.limit), .suppressed: .number(suppressed)])
            }
            throw ServiceProblem(503, "too many viewers", retryAfter: 10)
        }
        var response = HTTPResponse(type: "text/event-stream", body: newest)
        response.fields += PageGate.fields
        let viewer = Viewer(call.stream(response), call.ending)
        lastViewer += 1
        viewers[lastViewer] = viewer
        guard timer == nil else { return }
        do throws(SystemError) {
            timer = try LoopTimer(on: loop) { [weak self] in self?.secondIsOver() }
            secondIsOver()
        } catch {
            viewers = [:]
        }
    }

    private func secondIsOver() {
        guard !viewers.isEmpty else { return rest() }
        timer?.arm(at: loop.now + Self.pause)
        guard !isLooking else { return }
        isLooking = true
        loop.startTask { [self] _ in
            await look()
            isLooking = false
        }
    }

    /// Ends the observation, because no operator watches any more.
    private func rest() {
        (timer, newest, counts, ended) = (nil, [], nil, EndedCalls())
    }

    private func look() async {
        guard let event = LiveEvent.bytes("now", await snapshot()) else { return }
        newest = event
        for (number, viewer) in viewers {
            if let end = viewer.ending() {
                dismiss(number, end.rawValue)
            } else {
                send(event, to: viewer, number)
            }
        }
        if viewers.isEmpty { rest() }
    }

    private func send(_ event: [UInt8], to viewer: Viewer, _ number: UInt64) {
        guard !viewer.isBehind else { return }
        viewer.isBehind = true
        loop.startTask { [self] _ in
            let isThere = await viewer.body.send(event)
            viewer.isBehind = false
            if !isThere { viewers[number] = nil }
        }
    }

    /// Ends a stream, and sends the viewer the reason; a viewer that does not read is cut off.
    private func dismiss(_ number: UInt64, _ reason: String) {
        guard let viewer = viewers.removeValue(forKey: number), !viewer.isBehind,
            let event = LiveEvent.bytes("bye", LiveEvent.Bye(reason: reason))
        else { return }
        loop.startTask { _ in
            if await viewer.body.send(event) { viewer.body.end() }
        }
    }

    /// Ends all streams, because the daemon stops.
    ///
    /// - Returns: whether viewers were connected, who need a moment to read the reason.
    package func stops() -> Bool {
        defer { rest() }
        let numbers = Array(viewers.keys)
        for number in numbers { dismiss(number, "daemon stops") }
        return !numbers.isEmpty
    }

    // MARK: Snapshots

    /// Notes calls that have ended, for the live view. The method is called for each change of the timeline.
    package func traced(_ changes: [TimelineChange]) {
        guard !viewers.isEmpty else { return }
        for case .record(let record) in changes { ended.note(record) }
    }

    private static let callLimit = 100

    private func snapshot() async -> LiveSnapshot {
        let slowest = taps.slowPushesOfDevices(now: loop.now).prefix(10)
        let facts = await door.ask(.everything) { engine, now in Facts(engine, slowest, now) }
        let rates = facts.counts.rates(since: counts)
        counts = facts.counts
        let (held, nodes) = await withOthers(facts.held)
        return LiveSnapshot(
            time: facts.time, held: held, pushes: facts.pushes, rates: rates, ended: ended.take(),
            providers: await providers().map { LiveSnapshot.ProviderState($0) },
            store: LiveSnapshot.StoreState(obstacle: store.obstacle), nodes: nodes)
    }

    /// Adds the calls of the other nodes, and says which nodes have answered.
    private func withOthers(_ own: LiveSnapshot.HeldCalls) async -> (LiveSnapshot.HeldCalls, [LiveSnapshot.NodeState]) {
        guard let nodes else { return (own, []) }
        let others: NodeAnswers<HeldCallPage> = await nodes.ask("/v1/held?limit=\(Self.callLimit)", for: .wholeDaemon)
        var states = [LiveSnapshot.NodeState(name: nodes.own)]
        states += others.answers.map { LiveSnapshot.NodeState(name: $0.node) }
        states += others.missing.map { LiveSnapshot.NodeState(name: $0.node, problem: $0.reason) }
        return (own.joined(with: others, limit: Self.callLimit), states)
    }

    /// The values of a snapshot that come from the engine.
    private struct Facts: Sendable {
        let time: Int64
        let held: LiveSnapshot.HeldCalls
        let pushes: LiveSnapshot.Pushes
        let counts: LiveCounts

        init(_ engine: ProxyEngine, _ slowest: some Sequence<(device: DeviceID, push: SlowPush)>, _ now: Moment) {
            time = now.date.milliseconds
            let calls = engine.heldCalls(after: .beginning, limit: LiveView.callLimit).elements
            let reports = engine.pushReports
            held = LiveSnapshot.HeldCalls(
                total: engine.heldCallCount, calls: calls.compactMap { LiveSnapshot.Call($0, of: engine) })
            counts = LiveCounts(engine, reports, at: now.instant)
            pushes = LiveSnapshot.Pushes(
                queued: reports.reduce(0) { $0 &+ $1.report.queued },
                inFlight: reports.reduce(0) { $0 &+ $1.report.inFlight },
                slowest: slowest.map { device, push in
                    LiveSnapshot.Push(
                        user: engine.bindings.aor(of: device)?.description ?? "", provider: push.provider,
                        milliseconds: push.milliseconds)
                })
        }
    }
}

extension LiveSnapshot.HeldCalls {
    /// Adds the calls of other nodes, and keeps the oldest.
    func joined(with others: NodeAnswers<HeldCallPage>, limit: Int) -> LiveSnapshot.HeldCalls {
        let pages = others.answers.map(\.answer)
        let all = calls + pages.flatMap(\.calls).map { LiveSnapshot.Call($0) }
        let total = pages.reduce(total) { $0 &+ ($1.total ?? $1.calls.count) }
        let oldest = all.sorted { $0.receivedAt < $1.receivedAt }.prefix(limit)
        return LiveSnapshot.HeldCalls(total: total, calls: Array(oldest))
    }
}

extension LiveSnapshot.Call {
    /// A call at another node, whose times are whole seconds.
    init(_ call: HeldCallReport) {
        self.init(
            id: call.id, user: call.aor, caller: call.caller, callID: call.callID, receivedAt: call.receivedAt &* 1000,
            ringsUntil: call.ringsUntil &* 1000, sleeping: call.sleeping, ringing: call.ringing, node: call.node)
    }

    init?(_ call: StoredCall, of engine: ProxyEngine) {
        guard let userCall = call.userCall else { return nil }
        self.init(
            id: call.id, user: userCall.aor.description, caller: engine.caller(of: call.id)?.string ?? "",
            callID: userCall.callID.string, receivedAt: call.receivedAt.milliseconds,
            ringsUntil: userCall.holdUntil.milliseconds, sleeping: call.waiting.count, ringing: call.ringing.count,
            node: engine.nodeName)
    }
}
