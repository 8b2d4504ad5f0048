import Addressing
import Bytes
package import PushDelivery
import Registration
import Telemetry
import Timekeeping

/// What is kept of pushes: those under way and what waits for their end, how many a device and a caller may have, the
/// unread ones that make the badge, the users' missed calls, and the timeline of what was done. Its dispatcher decides how
/// they reach their providers.
///
/// Pure. It is told what happens, and appends what the shell has to do for it to the actions.
package struct PushLedger: ~Copyable {
    var pushes: [PushID: AskedPush] = [:]
    let dispatcher: PushDispatcher
    /// What the dispatcher orders just now. The array stays, so that its memory is used again.
    private var orders: [PushDispatcher.Action] = []
    package internal(set) var timeline: PushTimeline
    package internal(set) var unread: UnreadPushes
    package internal(set) var buckets: BucketTable
    var limits: PushLimits
    /// How many records callers may have.
    var recordShares: RecordShares
    /// Devices whose list of missed calls waits for another try, and how often it failed.
    var failedReports: [DeviceID: FailedReport] = [:]
    var timers = DeadlineQueue<LedgerTimer>()
    let log: Log
    let random: () -> UInt64
    private var lastPush: UInt64 = 0
    private var lastRecord: UInt64 = 0

    init(
        _ settings: ProxySettings, restoring entries: [StoredBucketEntry], random: @escaping () -> UInt64,
        deviceCode: @escaping (DeviceID) -> ByteString? = { _ in nil }, log: Log
    ) {
        dispatcher = PushDispatcher(settings.dispatch, deviceCode: deviceCode, log: log)
        timeline = PushTimeline(limit: settings.timelineLimit)
        unread = UnreadPushes(limit: settings.unreadLimit, maximumAge: settings.unreadAge)
        buckets = BucketTable(settings: settings.sharedBucket, restoring: entries)
        limits = PushLimits(settings)
        recordShares = RecordShares(settings)
        self.random = random
        self.log = log
    }

    // MARK: Names

    /// A new code, which names a push to its app. An app that shows it is believed, since nobody else can guess it.
    func newCode() -> PushCode { PushCode(high: random(), low: random()) }

    mutating func newRecordID() -> RecordID {
        lastRecord &+= 1
        return RecordID(rawValue: lastRecord)
    }

    /// Keeps what a push is for.
    mutating func begin(_ push: AskedPush) -> PushID {
        lastPush &+= 1
        let id = PushID(rawValue: lastPush)
        pushes[id] = push
        return id
    }

    // MARK: On the way to the provider

    /// The push begins its way. Its outcome, known at once or not, is asked for with ``nextOutcome()``.
    mutating func send(_ request: PushRequest, now: Moment, into actions: inout [ProxyAction]) {
        dispatcher.pushAsked(request, now: now)
        carryOut(now: now, into: &actions)
    }

    /// What became of a request to a provider, or of a credential.
    mutating func happened(_ event: PushDispatcher.Event, now: Moment, into actions: inout [ProxyAction]) {
        dispatcher.happened(event, now: now)
        carryOut(now: now, into: &actions)
    }

    /// From now on, credentials that have to be fetched are there before a push needs them.
    mutating func started(now: Moment, into actions: inout [ProxyAction]) {
        dispatcher.started(now: now)
        carryOut(now: now, into: &actions)
    }

    private mutating func carryOut(now: Moment, into actions: inout [ProxyAction]) {
        dispatcher.takeActions(into: &orders)
        // From the end, so that each is moved out of the array and not copied.
        orders.reverse()
        while let order = orders.popLast() {
            switch order {
            case .tell(let id, let step): noted(id, step, now: now, into: &actions)
            case .send(let transmission): actions.append(.push(transmission))
            case .makeCredential(let credential): actions.append(.makeCredential(credential))
            }
        }
    }

    // MARK: From push to outcome

    /// The next push that has ended, and the provider's last word; its branch may not wait for it any more. To be asked until
    /// it says `nil`.
    mutating func nextOutcome() -> (push: AskedPush, outcome: PushOutcome)? {
        while let (id, outcome) = dispatcher.nextOutcome() {
            guard let push = pushes.removeValue(forKey: id) else { continue }
            if !outcome.isAccepted { unread.ended(push.code, of: push.device) }
            return (push, outcome)
        }
        return nil
    }

    /// A step on the way to the provider. Whether the push of a call has left matters when its phone is lost later, since a
    /// phone is not woken twice.
    private mutating func noted(_ id: PushID, _ step: PushStep, now: Moment, into actions: inout [ProxyAction]) {
        guard let push = pushes[id] else { return }
        if case .sent = step { push.hasLeft = true }
        if case .call(let call, let branch) = push.purpose, !push.isDropped {
            switch step {
            case .sent: call.fork.pushLeft(branch)
            case .answered(let outcome, _, _) where !outcome.isAccepted: call.fork.pushRefused(branch)
            case .queued, .refused, .answered, .finished, .withdrawn: break
            }
        }
        if case .withdrawn = step, let push = pushes.removeValue(forKey: id) {
            unread.ended(push.code, of: push.device)
        }
        if let record = push.record { keep(timeline.noted(record, step, now: now.instant), into: &actions) }
    }

    /// Drops the push of a branch that needs none any more. One that has not left is withdrawn. What the provider says of any
    /// other still counts for all but the branch: for the badge, the record, the token, and for the end that the phone is to
    /// hear then.
    mutating func drop(
        _ branch: Int, of call: Call, owing end: EndedCallNotice? = nil, now: Moment, into actions: inout [ProxyAction]
    ) {
        guard let id = call.fork.takePush(branch) else { return }
        if let push = pushes[id] {
            push.isDropped = true
            push.end = end
            if !push.hasLeft { unread.ended(push.code, of: push.device) }
        }
        dispatcher.cancelled(id, now: now)
        carryOut(now: now, into: &actions)
    }

    // MARK: Waking a phone

    /// The incoming-call push of a branch that waits (R11); with the code that it had in an earlier run, if it was asked for
    /// there.
    mutating func wake(
        _ target: ForkTarget, _ token: PushToken, for branch: Int, of call: Call, _ offer: Offer,
        _ caller: CallerIdentity, again old: PushCode? = nil, now: Moment, into actions: inout [ProxyAction]
    ) {
        guard old != nil || limits.admits(target.id, for: offer.caller, now: now.instant) else {
            let isOwn = !limits.device.isUsedUp(target.id, now: now.instant)
            log.warning(
                isOwn
                    ? "caller has had its share of this phone's pushes, the phone is not woken"
                    : "phone gets too many pushes, it is not woken",
                [
                    .aor: .described(offer.aor), .device: .described(target.id),
                    .caller: .bytes(caller.remoteURI), .callID: .bytes(offer.key.callID),
                ])
            return began(
                branch, of: call, offer, target.id, isOwn ? .callerLimit : .deviceLimit, app: token.provider.rawValue,
                now: now)
        }
        let code = old ?? newCode()
        began(
            branch, of: call, offer, target.id, nil, code, app: token.provider.rawValue,
            since: old == nil ? nil : offer.receivedAt, now: now)
        let push = begin(
            AskedPush(
                .call(call, branch: branch), code, device: target.id, aor: offer.aor,
                record: call.fork.branches[branch].record))
        call.fork.pushAsked(branch, push)
        let badge = unread.asked(code, .call(offer.ref), by: target.id, at: now.date)
        send(
            PushRequest(
                id: push, code: code, device: target.id, token: token,
                message: .incomingCall(IncomingCall(offer, from: caller)), badge: badge,
                deadline: max(offer.pushDeadline, now.date + Self.shortestCallPush)), now: now, into: &actions)
    }

    /// How long a push is worth sending at least when a phone is woken because it was lost while it rang.
    private static var shortestCallPush: Duration { .seconds(5) }

    // MARK: The passing of time

    /// When ``timePassed(now:into:)`` and ``due(now:into:)`` are to be called. Outcomes that wait are told at once.
    var nextDeadline: Instant? {
        if dispatcher.hasOutcomes { return .distantPast }
        guard let timer = timers.nextDeadline, let dispatch = dispatcher.nextDeadline else {
            return timers.nextDeadline ?? dispatcher.nextDeadline
        }
        return min(timer, dispatch)
    }

    mutating func timePassed(now: Moment, into actions: inout [ProxyAction]) {
        guard let deadline = dispatcher.nextDeadline, deadline <= now.instant else { return }
        dispatcher.timePassed(now: now)
        carryOut(now: now, into: &actions)
    }

    /// - Returns: the next device whose list of missed calls is to be sent once more.
    mutating func due(now: Moment, into actions: inout [ProxyAction]) -> (device: DeviceID, aor: AddressOfRecord)? {
        while let timer = timers.popExpired(now: now.instant) {
            switch timer {
            case .report(let device, let aor): return (device, aor)
            case .sweep: sweep(now: now, into: &actions)
            }
        }
        return nil
    }
}

/// A push that was asked for and has not ended. It is a class, since each of its steps looks it up.
final class AskedPush {
    /// Why it was sent.
    enum Purpose {
        case call(Call, branch: Int)
        case missedCalls([CallRef])
        case notification
        /// It wakes the phone for what waits for it.
        case message
        /// It shows whether its provider takes a token.
        case dryRun(DryRunTicket)
    }

    let purpose: Purpose
    let code: PushCode
    let device: DeviceID
    let aor: AddressOfRecord
    /// Its record in the timeline.
    let record: RecordID?
    /// No branch waits for it any more.
    var isDropped = false
    /// A try of it was sent.
    var hasLeft = false
    /// What its phone is to hear when the provider has taken it: the call was over before.
    var end: EndedCallNotice?

    init(_ purpose: Purpose, _ code: PushCode, device: DeviceID, aor: AddressOfRecord, record: RecordID?) {
        self.purpose = purpose
        self.code = code
        self.device = device
        self.aor = aor
        self.record = record
    }
}

/// How many pushes there may be (T11.2).
struct PushLimits {
    /// For calls, and for all else.
    private(set) var device: SharedRate<DeviceID>
    private var notification: SharedRate<DeviceID>
    var caller: RateLimit<Caller>

    init(_ settings: ProxySettings) {
        device = SharedRate(settings.share(of: settings.call.pushesPerDevice))
        notification = SharedRate(settings.share(of: settings.notificationsPerDevice))
        caller = RateLimit(perMinute: settings.call.pushesPerCaller, capacity: 65_536)
    }

    mutating func changed(_ settings: ProxySettings) {
        device.changed(settings.share(of: settings.call.pushesPerDevice))
        notification.changed(settings.share(of: settings.notificationsPerDevice))
        caller.limit = settings.call.pushesPerCaller
    }

    /// Whether the device may be woken for one more call of that caller (T11.1, T32.1). If it may, that counts.
    mutating func admits(_ device: DeviceID, for caller: Caller, now: Instant) -> Bool {
        self.device.admit(
            device, by: caller.number(at: device.rawValue), isTrusted: caller.isTrusted, now: now)
    }

    /// Whether it may be woken for something else. A device has a share of its own for notifications, and gets none while calls
    /// have used up theirs: so they never take a call's place, and a phone is not woken more often than both shares say.
    func mayNotify(_ device: DeviceID, for caller: Caller?, now: Instant) -> Bool {
        notification.hasRoom(
            for: device, by: caller?.number(at: device.rawValue), isTrusted: caller?.isTrusted ?? true, now: now)
            && !self.device.isUsedUp(device, now: now)
    }

    mutating func notified(_ device: DeviceID, for caller: Caller?, now: Instant) {
        _ = notification.admit(
            device, by: caller?.number(at: device.rawValue), isTrusted: caller?.isTrusted ?? true, now: now)
    }
}

enum LedgerTimer: Sendable {
    /// A list of missed calls is to be sent: its provider did not take it, or its phone has said nothing to what it was asked.
    case report(DeviceID, AddressOfRecord)
    /// Missed calls that are too old are to be dropped.
    case sweep
}

/// A list of missed calls that was not taken.
struct FailedReport {
    var count: Int
    let timer: DeadlineID
}

extension IncomingCall {
    /// As pushes tell of it.
    init(_ offer: Offer, from caller: CallerIdentity) {
        self.init(
            callRef: offer.ref, callerURI: caller.number, displayName: caller.displayName,
            isAnonymous: caller.isAnonymous, receivedAt: offer.receivedAt, callID: offer.key.callID)
    }
}
