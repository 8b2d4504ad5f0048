import Bytes
import Collections
import HTTPServer
import Persistence
import ProxyCore
import PushDelivery
import Reactor
import Registration
import Telemetry
import Timekeeping

/// The engine's functions that registrations and clean-ups of devices use.
struct DeviceDirectory {
    /// Adds a device to a user, and returns when the device is in the store or refused.
    let report: (ReportedDevice, AddressOfRecord) async -> ReportResult
    /// Removes devices of a user, and returns when the removal is in the store or refused.
    let withdraw: (DeviceSelection, AddressOfRecord) async -> ReportResult
    /// Whether the token's provider would accept a push to the token.
    let canBePushed: (PushToken) async -> Bool
    /// Returns the tokens of all devices of a user, from SIP registrations and from reports over HTTP.
    let tokens: (AddressOfRecord) async -> [PushToken]
}

/// Carries out registrations and clean-ups of devices.
///
/// Requests for one user are carried out one after the other in the order of their arrival, even from different apps.
/// Otherwise, if two apps removed the same device at the same time, each removal could find that the other app still
/// uses the device, and keep it.
///
/// A device request is accepted when the store has it, and finished when the store has its outcome. After a restart,
/// the queue repeats requests that were accepted but not finished.
///
/// - The class is `@unchecked Sendable`, because only the shard's loop uses it.
final class DeviceRequestQueue: @unchecked Sendable {
    /// Identifies a queue of device requests that are carried out one after the other.
    private enum Line: Hashable {
        case user(AddressOfRecord)
        /// The queue for a user who cannot exist at this daemon, or for a user of a removed app. All device requests in
        /// the queue `nobody` fail.
        case nobody(app: String, user: String)
    }

    private struct Work {
        let request: DeviceRequest
        var tries = 0
    }

    private let loop: EventLoop
    private let store: any ProxyStore
    private let apps: MobileApps
    private let directory: DeviceDirectory
    private let webhooks: WebhookSender
    private let age: Duration
    private let log: Log

    /// The device requests of each queue, in the order of their arrival. The first request of a queue is in progress,
    /// or its queue waits in `ready` or `postponed`.
    private var lines: [Line: [Work]] = [:]
    private var ready = Queue<Line>()
    private var atWork = 0
    /// The number of unfinished requests, including requests that are not in the store yet.
    private(set) var count = 0
    private var postponed: [Line] = []
    private var timer: LoopTimer?
    private var pruneTimer: LoopTimer?
    private var strangers = LogRateLimit()

    private static let limit = 10_000
    private static let concurrency = 16
    private static let tryLimit = 5
    private static let pause: Duration = .seconds(5)
    private static let pruneInterval: Duration = .seconds(3600)
    private static let historyLimit = 1_000_000

    init(
        store: any ProxyStore, loop: EventLoop, apps: MobileApps, directory: DeviceDirectory,
        webhooks: WebhookSender, age: Duration, log: Log
    ) throws(SystemError) {
        self.store = store
        self.loop = loop
        self.apps = apps
        self.directory = directory
        self.webhooks = webhooks
        self.age = age
        self.log = log
        timer = try LoopTimer(on: loop) { [weak self] in self?.pauseOver() }
        pruneTimer = try LoopTimer(on: loop) { [weak self] in self?.prune() }
        pruneTimer?.arm(at: loop.now + .seconds(90))
    }

    var date: UnixTime { loop.moment.date }

    // MARK: New requests

    /// Resumes the requests that were accepted before the last stop and are not finished.
    func resume(_ requests: [DeviceRequest]) {
        for request in requests { enqueue(request) }
        loop.post { self.startWaiting() }
    }

    /// Accepts requests, and calls `done` once on the loop, with true if the store has the requests.
    func accept(
        _ requests: [DeviceRequest], _ done: @escaping @Sendable (Bool) -> Void
    ) throws(ServiceProblem) {
        guard !requests.isEmpty else { return done(true) }
        guard count + requests.count <= Self.limit else { throw .tooManyRequests }
        count += requests.count
        store.commit(requests.map { .deviceRequest($0) }) { [weak self] result in
            guard let self else { return }
            count -= requests.count
            done(result.isStored)
            guard result.isStored else { return }
            for request in requests { enqueue(request) }
            startWaiting()
        }
    }

    func strangerCame(_ request: HTTPRequest) {
        guard let suppressed = strangers.admit(now: loop.now) else { return }
        log.info(
            "device registration refused: the ApiToken of the request is not valid",
            [.source: .described(request.remote), .suppressed: .number(suppressed)])
    }

    private func enqueue(_ request: DeviceRequest) {
        count += 1
        let user = apps[request.app]?.address(of: request.user)
        let line = user.map(Line.user) ?? .nobody(app: request.app, user: request.user)
        lines[line, default: []].append(Work(request: request))
        if lines[line]?.count == 1 { ready.append(line) }
    }

    // MARK: Processing

    private func startWaiting() {
        while atWork < Self.concurrency, let line = ready.popFirst() {
            guard let work = lines[line]?.first else { continue }
            atWork += 1
            begin(work.request, line)
        }
    }

    private func begin(_ request: DeviceRequest, _ line: Line) {
        guard let app = apps[request.app], let aor = app.address(of: request.user) else {
            return finish(request, line, .failed(.failedToStoreDevice))
        }
        switch request.kind {
        case .registration: register(request, line, app.token(request.token, on: request.platform), aor)
        case .cleanup: cleanUp(request, line, aor)
        }
    }

    /// Writes the outcome of a queue's first request into the store, and then sends the webhook.
    private func finish(
        _ request: DeviceRequest, _ line: Line, _ outcome: DeviceOutcome, besides changes: [ServiceChange] = []
    ) {
        store.commit(changes + [.deviceRequestFinished(request, outcome, at: date)]) { [weak self] result in
            guard let self else { return }
            guard result.isStored else { return postpone(request, line, orEndWith: nil) }
            if case .failed(let failure) = outcome {
                log.info(
                    "device registration failed",
                    [.user: .text(request.user), .reason: .text(failure.rawValue)])
            }
            if let callback = request.callback { webhooks.post(outcome, to: callback) }
            leave(line)
        }
    }

    private func leave(_ line: Line) {
        atWork -= 1
        count -= 1
        lines[line]?.removeFirst()
        if lines[line]?.isEmpty == true { lines[line] = nil } else { ready.append(line) }
        startWaiting()
    }

    /// Postpones a queue whose first request the store or the engine cannot serve now. After too many attempts, the
    /// request ends with the given failure. If `failure` is `nil`, the request stays unfinished until the next start.
    private func postpone(_ request: DeviceRequest, _ line: Line, orEndWith failure: DeviceFailure?) {
        lines[line]?[0].tries += 1
        guard lines[line]?.first?.tries ?? 0 < Self.tryLimit else {
            if let failure { return finish(request, line, .failed(failure)) }
            log.error(
                "the result of a device registration could not be stored, so the daemon repeats the registration at its next start"
            )
            return leave(line)
        }
        atWork -= 1
        postponed.append(line)
        if timer?.deadline == nil { timer?.arm(at: loop.now + Self.pause) }
        startWaiting()
    }

    private func pauseOver() {
        for line in postponed { ready.append(line) }
        postponed = []
        startWaiting()
    }

    // MARK: Registrations

    private func register(_ request: DeviceRequest, _ line: Line, _ token: PushToken, _ aor: AddressOfRecord) {
        guard request.token.utf8.count <= DeviceRequest.tokenLimit else {
            return finish(request, line, .failed(.deviceTokenTooLong))
        }
        lookUp(request, line, token: nil) { await self.lookedUp(request, line, token, aor, registered: $0) }
    }

    /// Reads the tokens that the app registered for the user, or only `token` if it is not `nil`.
    private func lookUp(
        _ request: DeviceRequest, _ line: Line, token: String?, _ found: @escaping @Sendable ([String]) async -> Void
    ) {
        loop.startTask { [self] _ in
            if let tokens = try? await store.mobileDevices(of: request.user, app: request.app, token: token) {
                await found(tokens)
            } else {
                postpone(request, line, orEndWith: .failedToStoreDevice)
            }
        }
    }

    private func lookedUp(
        _ request: DeviceRequest, _ line: Line, _ token: PushToken, _ aor: AddressOfRecord, registered: [String]
    ) async {
        // A push token is a duplicate only if the app itself registered the token earlier and the engine still has the
        // token. If only the engine has the token, from SIP or a report, the app becomes one of the token's owners.
        if registered.contains(request.token), await directory.tokens(aor).contains(where: { $0.covers(token) }) {
            return finish(request, line, .failed(.duplicateExists))
        }
        guard await directory.canBePushed(token) else { return finish(request, line, .failed(.dryRunSendingFailed)) }
        let result = await directory.report(ReportedDevice(token: token, label: .empty), aor)
        await reported(request, line, result, registered, aor)
    }

    private func reported(
        _ request: DeviceRequest, _ line: Line, _ result: ReportResult, _ registered: [String], _ aor: AddressOfRecord
    ) async {
        switch result {
        case .done:
            // Removes the app's rows for tokens that the engine no longer has, because no other code removes them.
            // Usually, the reason is that the app was removed from the phone.
            let known = await directory.tokens(aor)
            let lost = registered.filter { token in
                token != request.token && !known.contains { $0.isNamed(ByteString(token)) }
            }
            finish(
                request, line, .success,
                besides: [.mobileDevice(request)] + lost.map { .forgetMobileDevices(request.naming($0)) })
        case .notSupported(let problem):
            log.info(
                "an app server registered a device that cannot receive pushes",
                [.user: .text(request.user), .reason: .text("\(problem.sentence)")])
            finish(request, line, .failed(.dryRunSendingFailed))
        case .tooManyDevices, .malformed: finish(request, line, .failed(.failedToStoreDevice))
        case .unavailable: postpone(request, line, orEndWith: .failedToStoreDevice)
        }
    }

    // MARK: Cleanups

    /// Removes the devices that the request's app registered for the user. A device that several apps registered stays
    /// until the last of these apps removes it.
    private func cleanUp(_ request: DeviceRequest, _ line: Line, _ aor: AddressOfRecord) {
        lookUp(request, line, token: request.token.isEmpty ? nil : request.token) { tokens in
            await self.withdraw(tokens, request, line, aor)
        }
    }

    private func withdraw(
        _ tokens: [String], _ request: DeviceRequest, _ line: Line, _ aor: AddressOfRecord
    ) async {
        for token in tokens.reversed() {
            guard let others = try? await store.mobileOwners(of: token) else {
                return postpone(request, line, orEndWith: .failedToStoreDevice)
            }
            guard !others.contains(where: { isOther($0, than: request.app, for: aor) }) else { continue }
            guard await directory.withdraw(.token(ByteString(token)), aor) != .unavailable else {
                return postpone(request, line, orEndWith: .failedToStoreDevice)
            }
        }
        finish(request, line, .success, besides: [.forgetMobileDevices(request)])
    }

    /// Whether the owner of a device is another app that still exists and that registered the device for the same user.
    /// The search for owners ignores upper and lower case: Google's tokens are case-sensitive, but two tokens that
    /// differ only in case do not occur.
    private func isOther(_ owner: MobileOwner, than app: String, for aor: AddressOfRecord) -> Bool {
        owner.app != app && apps[owner.app]?.address(of: owner.user) == aor
    }

    // MARK: History

    func prune() {
        store.record([.pruneDeviceRequests(before: date + (.zero - age), keeping: Self.historyLimit)])
        pruneTimer?.arm(at: loop.now + Self.pruneInterval)
    }
}
